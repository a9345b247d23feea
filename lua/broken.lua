#!lua
-- Marks the segment of this epoch as broken (it contradicts itself or the ledger) until it is
-- rebuilt. state.lua returns the mark.
-- KEYS: meta. ARGV: epoch.
local place = redis.call('HGET', KEYS[1], 'place')
if string.match(place or '', '^%d+') ~= ARGV[1] then
    return 'X ' .. (place or '-')
end
redis.call('HSET', KEYS[1], 'broken', 1)
return VERDICT_DONE .. ' 0 0 0 0 0'
