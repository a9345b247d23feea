#!lua
-- Creates an empty, closed segment with a higher epoch and stores the server that may decide for
-- it. Keys contain their epoch, so the keys of older epochs are out of reach at once. Closed:
-- `place` has a word more, so it equals no front's place; restore.lua fills and opens the segment.
-- `base` is the event as of which it is filled: a closed segment is not begun again with another.
-- KEYS: meta.
-- ARGV: epoch, run id, fence, event, highest time (of the ledger; limited as in event.lua), room
--       for orders, buyers, items, sales, and for entries of the outbox (0: no limit), shares: most
--       live orders of a buyer of an item, of an item and of a sale, most buyers of a sale.
-- `room` is what is left of the pools of orders and of buyers, and `check`, packed. A buy that leaves fewer
-- orders than `check` asks how long the outbox is, and sets `check` to the number of orders that will be
-- left when the outbox could be full: each entry comes with an order. So few buys ask.
local meta = redis.call('HMGET', KEYS[1], 'place', 'fence', 'base')
local epoch, run, layout, closed = string.match(meta[1] or '0 -', '^(%d+) (%S+) ?(%d*) ?(%a*)$')
if tonumber(ARGV[3]) < tonumber(meta[2] or 0) then
    return 'F ' .. meta[2]
elseif epoch == ARGV[1] and run == ARGV[2] and layout == "REDIS_LAYOUT"
    and (closed == '' or meta[3] == ARGV[4]) then
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
local check = ARGV[10] == '0' and -9007199254740991 or tonumber(ARGV[6])
redis.call('HSET', KEYS[1], 'place', ARGV[1] .. ' ' .. ARGV[2] .. " REDIS_LAYOUT closed",
    'high', high, 'room', struct.pack('<ddd', ARGV[6], ARGV[7], check), 'event', ARGV[4],
    'fence', ARGV[3], 'out_max', ARGV[10], 'items_left', ARGV[8], 'sales_left', ARGV[9],
    'base', ARGV[4], 'shares', ARGV[11],
    'sizes', ARGV[6] .. ' ' .. ARGV[7] .. ' ' .. ARGV[8] .. ' ' .. ARGV[9])
return VERDICT_DONE .. ' 0 0 0 0 0'
