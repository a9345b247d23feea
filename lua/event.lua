-- The beginning of every script for ledger events; scripts.c inserts it after news.lua.
-- KEYS[1]: meta.
-- ARGV: place (epoch and run id), fence (0: none), event, the event before it, now, kind.
-- While a segment is being rebuilt, only the token of the rebuild may apply events: the segment is
-- incomplete.
local call, match, text = redis.call, string.match, string.format
local meta = call('HMGET', KEYS[1], 'place', 'high', 'event', 'fence')
local fence = ARGV[2]
if meta[1] ~= ARGV[1]
    and (meta[1] ~= ARGV[1] .. ' closed' or fence == '0' and meta[4] ~= '0') then
    return 'X ' .. (meta[1] or '-')
elseif tonumber(fence) < tonumber(meta[4]) then
    if fence ~= '0' then
        return 'F ' .. meta[4]
    end
    fence = meta[4]
end
local kind, event = tonumber(ARGV[6]), ARGV[3]
-- Units for a transfer are taken before the ledger knows how many: this is not an event.
local asked = kind == GATE_TRANSFER_OUT and event == '0'
if asked then
    event = meta[3]
elseif tonumber(event) <= tonumber(meta[3]) then
    return VERDICT_ALREADY_APPLIED .. ' 0 0 0 0 0'
elseif ARGV[4] ~= meta[3] then
    return 'G ' .. meta[3]
end

-- The last write of an event. More fields and their values may follow.
local function write_meta(number, ...)
    -- Only an event carries the ledger's time, which may be wrong. Sales begin and end by this
    -- server's clock, so an event raises the highest time at most SEGMENT_CLOCK_OFF_MS beyond it.
    local high = meta[2]
    if not asked and tonumber(ARGV[5]) > tonumber(high) then
        local time = call('TIME')
        local most = time[1] * 1000 + math.floor(time[2] / 1000) + SEGMENT_CLOCK_OFF_MS
        if tonumber(ARGV[5]) <= most then
            high = ARGV[5]
        elseif most > tonumber(high) then
            high = text('%.0f', most)
        end
    end
    call('HSET', KEYS[1], 'high', high, 'event', number, 'fence', fence, ...)
end
