-- What the script of every ledger event begins with; scripts.c puts it behind their first line.
-- KEYS[1]: meta.
-- ARGV: place (epoch and run id), fence (0: none), event, the event before it, now, kind.
-- While a segment is being rebuilt only the token that rebuilds it applies events: others would
-- meet a half-filled one.
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
-- Taking units for a transfer is asked before the ledger knows how many: it is no event.
local asked = kind == GATE_TRANSFER_OUT and event == '0'
if asked then
    event = meta[3]
elseif tonumber(event) <= tonumber(meta[3]) then
    return VERDICT_ALREADY_APPLIED .. ' 0 0 0 0 0'
elseif ARGV[4] ~= meta[3] then
    return 'G ' .. meta[3]
end

-- The last thing an event writes.
local function write_meta(number)
    -- What is no event says nothing about the ledger's time. And that may be wrong: sales begin and
    -- end by this server's, so it raises the highest time seen no further than a clock may be off.
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
    call('HSET', KEYS[1], 'high', high, 'event', number, 'fence', fence)
end
local function tell(news)
    call('PUBLISH', string.sub(KEYS[1], 1, -5) .. 'news', news)
end
