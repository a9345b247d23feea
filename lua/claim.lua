#!lua
-- Creates an empty, closed segment with a higher epoch and stores the server that may decide for
-- it. Keys contain their epoch, so the keys of older epochs are out of reach at once. Closed:
-- `place` has a third word, so it equals no front's place; restore.lua fills and opens the segment.
-- `base` is the event as of which it is filled: a closed segment is not begun again with another.
-- KEYS: meta.
-- ARGV: epoch, run id, fence, event, highest time (of the ledger; limited as in event.lua), room
--       for orders, buyers, items, sales, and for entries of the outbox (0: no limit).
local meta = redis.call('HMGET', KEYS[1], 'place', 'fence', 'base')
local epoch, run, closed = string.match(meta[1] or '0 -', '^(%d+) (%S+) ?(%a*)$')
if tonumber(ARGV[3]) < tonumber(meta[2] or 0) then
    return 'F ' .. meta[2]
elseif epoch == ARGV[1] and run == ARGV[2] and (closed == '' or meta[3] == ARGV[4]) then
    -- A repetition. The caller may hold a newer token by now.
    redis.call('HSET', KEYS[1], 'fence', ARGV[3])
    return VERDICT_ALREADY_APPLIED .. ' 0 0 0 0 0'
elseif tonumber(epoch) >= tonumber(ARGV[1]) then
    return 'X ' .. (meta[1] or '-')
end
redis.call('DEL', KEYS[1])
local time, high = redis.call('TIME'), ARGV[5]
local most = time[1] * 1000 + math.floor(time[2] / 1000) + SEGMENT_CLOCK_OFF_MS
if tonumber(high) > most then
    high = string.format('%.0f', most)
end
-- The fields that every call reads come first: a small hash is searched linearly.
redis.call('HSET', KEYS[1], 'place', ARGV[1] .. ' ' .. ARGV[2] .. ' closed', 'high', high,
    'orders_left', ARGV[6], 'buyers_left', ARGV[7], 'out_max', ARGV[10], 'event', ARGV[4],
    'fence', ARGV[3], 'items_left', ARGV[8], 'sales_left', ARGV[9], 'base', ARGV[4])
return VERDICT_DONE .. ' 0 0 0 0 0'
