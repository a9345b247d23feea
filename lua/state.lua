#!lua flags=no-writes
-- The state of a segment in any epoch: event, fence, the server's time, entries in the outbox, time
-- of the oldest one, whether it is marked broken, sizes of the pools of orders, buyers, items and
-- sales, what is left of them, and place (two to four words; - if there is none).
-- KEYS: meta, outbox.
local meta = redis.call('HMGET', KEYS[1], 'place', 'event', 'fence', 'broken', 'sizes', 'room',
    'items_left', 'sales_left')
local pools = '0 0 0 0 0 0 0 0'
if meta[5] and meta[6] then
    local orders, buyers = struct.unpack('<dd', meta[6])
    pools = string.format('%s %d %d %s %s', meta[5], orders, buyers, meta[7], meta[8])
end
local time = redis.call('TIME')
local oldest = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)[1]
return table.concat({'S', meta[2] or 0, meta[3] or 0,
    string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000)),
    redis.call('XLEN', KEYS[2]), oldest and string.match(oldest[1], '^%d+') or 0,
    meta[4] or 0, pools, meta[1] or '-'}, ' ')
