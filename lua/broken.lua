#!lua
-- The segment of this epoch contradicts itself, or the ledger: whoever looks at it sees so, until it
-- is made anew.
-- KEYS: meta. ARGV: epoch.
local place = redis.call('HGET', KEYS[1], 'place')
if string.match(place or '', '^%d+') ~= ARGV[1] then
    return 'X ' .. (place or '-')
end
redis.call('HSET', KEYS[1], 'broken', 1)
return VERDICT_DONE .. ' 0 0 0 0 0'
