#!lua flags=no-writes
-- How a segment stands, whatever its epoch: place (two or three words, - where there is nothing)
-- behind event, fence, the server's time, entries in the outbox, when the oldest came there, and
-- whether it was called broken.
-- KEYS: meta, outbox.
local meta = redis.call('HMGET', KEYS[1], 'place', 'event', 'fence', 'broken')
local time = redis.call('TIME')
local oldest = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)[1]
return table.concat({'S', meta[2] or 0, meta[3] or 0,
    string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000)),
    redis.call('XLEN', KEYS[2]), oldest and string.match(oldest[1], '^%d+') or 0,
    meta[4] or 0, meta[1] or '-'}, ' ')
