#!lua flags=no-writes
-- The state of a segment in any epoch: event, fence, the server's time, entries in the outbox, time
-- of the oldest one, whether it is marked broken, and place (two or three words; - if there is
-- none).
-- KEYS: meta, outbox.
local meta = redis.call('HMGET', KEYS[1], 'place', 'event', 'fence', 'broken')
local time = redis.call('TIME')
local oldest = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)[1]
return table.concat({'S', meta[2] or 0, meta[3] or 0,
    string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000)),
    redis.call('XLEN', KEYS[2]), oldest and string.match(oldest[1], '^%d+') or 0,
    meta[4] or 0, meta[1] or '-'}, ' ')
