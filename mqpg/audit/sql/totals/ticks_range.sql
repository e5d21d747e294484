-- The times of the first and the last tick; null where there is none.
select min(k.at) as first, max(k.at) as last
from tick as k
