#!/usr/bin/env bash
# Fetch mermaid into .mermaid, so that the documentation site draws its diagrams without a network.
# Without npm the site loads it from a content network.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

WANTED=11.17.2

[ -f ".mermaid/$WANTED.js" ] && exit 0
mkdir -p .mermaid
package=.mermaid/mermaid-$WANTED.tgz
if command -v npm > /dev/null && npm pack --silent --pack-destination .mermaid "mermaid@$WANTED" > /dev/null; then
    tar -xzOf "$package" package/dist/mermaid.min.js > .mermaid/new
    rm -f .mermaid/*.js
    mv .mermaid/new ".mermaid/$WANTED.js"
    rm "$package"
else
    echo "mermaid was not fetched: diagrams of the site need a network" >&2
fi
