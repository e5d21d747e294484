"""Hostile values of each SQL type, the public functions of the catalog, and the codes that they may
raise. Tests that pass values which few people try share them.
"""

import re
from typing import NamedTuple

__all__ = ["CATALOG", "HOSTILE", "NOT_JSON", "SINCE_17", "TEXTS", "TRANSIENT", "Function", "allowed", "filled"]

# What a caller may have to repeat, or has brought about: a lost race, a deadlock, a lock or a
# statement that took too long, a transaction that is read-only.
TRANSIENT = {"40001", "40P01", "55P03", "57014", "25006"}
# Text that is no JSON, and JSON that is nested too deeply for the server's stack.
NOT_JSON = {"22P02", "54001"}

TEXTS = [
    "''",
    "' '",
    "repeat('x', 10240)",
    "repeat('é', 5000)",
    "''''",
    "'\"'",
    "'\"a'",
    '\'"".""\'',
    "'\"a\".b'",
    "E'\\\\'",
    "E'\\n'",
    "E'a\\u0085'",
    "'fa''; drop table mqpg.topic; --'",
    "'é'",
    "'😀'",
    "'１'",
    "'%s%n'",
    "'$1'",
    "'{'",
    "'{}'",
    "'null'",
    "'[1]'",
    "repeat('[', 20000)",
    "'NaN'",
    "'infinity'",
    "'-infinity'",
    "'1e3'",
    "'-1'",
    "'99999999999999999999'",
    "'9223372036854775807'",
    "'-9223372036854775808'",
    "'2020-01-01'",
    "'294276-12-31'",
    "'294277-01-01'",
    "'4713-01-01 BC'",
    "'2020-01-01 +99'",
    "'2020-01-01 Nowhere/Else'",
    "'2020-13-01'",
    "'epoch'",
    "'.'",
    "'a.'",
    "'.a'",
    "'a..b'",
    "'a.b.c'",
    "'a.b.c.d.e'",
    "'x('",
    "'x()'",
    "'1'",
    "'a b'",
    "'pg_sleep'",
    "'pg_catalog.pg_sleep'",
    "'public.f(text)--'",
    "'1.2.3.4.5'",
    "'0.0.0.0.0'",
    "'999999999.9999.999999999999999999.999999999999999999.999999999999999999'",
    "'999999999.-1.999999999999999999.999999999999999999.0'",
    "'1.0.1048577.5.3'",
    "'000000000000.1.1.' || repeat('0', 32)",
    "(select broker_id from mqpg.broker) || '.1.999999999999999999.' || repeat('f', 32)",
    "(select broker_id from mqpg.broker) || '.999999999.1.' || repeat('f', 32)",
    "(select broker_id from mqpg.broker) || '.1.9999999999999999999.' || repeat('f', 32)",
]
JSONS = [
    "'null'",
    "'[]'",
    "'[[1], [2]]'",
    "'\"x\"'",
    "'1'",
    "'-0'",
    "'{}'",
    '\'{"a": {"b": null}}\'',
    '\'{"mqpg-phase": 1, "mqpg-handle": []}\'',
    "repeat('[', 1000) || repeat(']', 1000)",
    "'\"' || repeat('y', 1100000) || '\"'",
]
HOSTILE: dict[str, list[str]] = {
    "text": TEXTS,
    "json": [*JSONS, '\'{"a": "\\u0000"}\'', "'\"\\ud800\"'", "'1e400'", "'1e99999999'", '\'{"a": 1, "a": 2}\''],
    "jsonb": [*JSONS, "'1e400'"],
    "jsonpath": [
        "'$'",
        "'true'",
        "'1 / 0 > 1'",
        "'strict $.x.y'",
        "'strict $.x.y > 1'",
        "'$foo'",
        '\'$"a\\"b" == 1\'',
        "'$.**'",
        "'$.a == null'",
        "'$.a.double() > 1'",
        "'$.datetime() > 1'",
        "'$.keyvalue().value == 1'",
        "'$.a like_regex \"(a+)+$\"'",
        "'$key == \"k\" && exists($headers.x) && $tag == null'",
        "'$[9223372036854775807] > 1'",
        "('$' || repeat('.a', 2000) || ' > 1')",
    ],
    "boolean": ["true", "false"],
    "integer": ["0", "-1", "1", "1000", "1001", "10001", "32768", "-2147483648", "2147483647"],
    "bigint": [
        "0",
        "-1",
        "1",
        "1023",
        "1024",
        "-1024",
        "9007199254740993",
        "4611686018427387904",
        "-9223372036854775808",
        "-9223372036854774785",
        "9223372036854775807",
        "9223372036854774784",
    ],
    "numeric": ["0", "-1", "0.5", "'NaN'", "'Infinity'", "'-Infinity'", "1e1000", "-1e-1000"],
    "interval": [
        "'0'",
        "'-1 s'",
        "'-1 us'",
        "'1 us'",
        "'10 ms'",
        "'1 month'",
        "'1 mon -30 days'",
        "'100 years'",
        "'101 years'",
        "'36500 days'",
        "'876000 hours'",
        "'178000000 years'",
        "'-178000000 years'",
        "'2147483647 days'",
        "'-2147483648 days'",
        # the longest that the server reads: PostgreSQL 14 counts hours in 32 bits
        "case when current_setting('server_version_num')::int < 150000 "
        "then '2147483647 hours' else '2562047788 hours' end",
        "'infinity'",
        "'-infinity'",
    ],
    "timestamp with time zone": [
        "'infinity'",
        "'-infinity'",
        "'4713-01-01 BC'",
        "'294276-12-31'",
        "'2000-01-01'",
        "'2100-01-01'",
        "now()",
    ],
    "mqpg.verdict": ["'commit'", "'rollback'", "'wait'"],
    "text[]": [
        "'{}'",
        "array[null]",
        "array['']",
        "array['a', null]",
        "array[array['a', 'b'], array['c', 'd']]",
        "array[array[null], array['{}']]",
        "'[5:6]={1,2}'",
        "'[-2147483647:-2147483646]={1,2}'",
        "'[2147483645:2147483646]={1,2}'",
        "array[repeat('x', 10240)]",
        "array(select '1' from generate_series(1, 3000))",
        "array['1', '{', '\"']",
        "array['1', '1']",
    ],
    "bigint[]": [
        "'{}'",
        "array[null]",
        "array[1, null]",
        "'{{1,2},{3,4}}'",
        "'[5:6]={1,2}'",
        "'[2147483645:2147483646]={1,2}'",
        "array[-9223372036854775808, 9223372036854775807]",
        "array[-1, 0, 1]",
        "array[1, 1]",
        "array(select i from generate_series(1, 3000) i)",
    ],
    "integer[]": [
        "'{}'",
        "array[null]",
        "array[1, null]",
        "'{{1,2},{3,4}}'",
        "'[2147483645:2147483646]={1,2}'",
        "array[-2147483648, 2147483647]",
        "array[-1, 0, 1]",
        "array[1, 1]",
        "array(select i from generate_series(1, 3000) i)",
    ],
    "json[]": ["'{}'", "'{null}'", "'{{1,2},{3,4}}'", "'[5:6]={1,2}'", "'{1,null}'", 'array[\'{"a": "\\u0000"}\']'],
    "jsonb[]": ["'{}'", "'{null}'", "'{{1,2},{3,4}}'", "'[5:6]={1,2}'", "'{1,null}'", "array['[]', '1']"],
}
# PostgreSQL 16 and older have no infinite intervals.
SINCE_17 = {("interval", "'infinity'"), ("interval", "'-infinity'")}


def filled(value: str, broker: dict[str, object]) -> str:
    return re.sub(r"[{](\w+)[}]", lambda found: str(broker.get(found[1], found[0])), value)


class Function(NamedTuple):
    name: str
    arguments: tuple[str, ...]
    types: tuple[str, ...]
    defaults: tuple[str | None, ...]  # None: none; 'NULL::…': null is allowed
    returns_set: bool

    def text(self, values: dict[str, str], broker: dict[str, object]) -> str:
        given = ", ".join(
            f"{name} => ({filled(values[name], broker)})::{kind}"
            for name, kind in zip(self.arguments, self.types, strict=True)
            if name in values
        )
        return f"select * from mqpg.{self.name}({given})"


CATALOG = """
select p.proname, p.pronargs, coalesce(p.proargnames, '{}'),
    array(select format_type(t, null) from unnest(p.proargtypes) with ordinality as u(t, o) order by o) as types,
    array(select pg_get_function_arg_default(p.oid, i) from generate_series(1, p.pronargs) as i) as defaults, p.proretset
from pg_proc p
where p.pronamespace = 'mqpg'::regnamespace and p.prokind = 'f' and p.prorettype <> 'trigger'::regtype
    and p.proname !~ '^_'
order by p.proname, p.oid
"""


def allowed(function: Function, state: str) -> bool:
    takes_json_text = any(
        name in ("payload", "payloads") and kind in ("text", "text[]")
        for name, kind in zip(function.arguments, function.types, strict=True)
    )
    return state == "00000" or state.startswith("MQ0") or state in TRANSIENT or (takes_json_text and state in NOT_JSON)
