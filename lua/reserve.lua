#!lua
-- A buyer asks for units: the one command that is decided here first. Every check comes before the
-- first write, and of the writes the only one that could fail, the outbox, comes first.
-- Or a decision is made again that was told already (again): with the time it was made with, while
-- the segment is being rebuilt, too, and whatever has become of ticket and sale since then.
-- KEYS: meta, item, the buyer's bucket, the order's bucket, outbox.
-- ARGV: place (epoch and run id), order id, user, item, qty, now, the ticket's expiry,
--       the id's attempt (-1: a fresh id, -2: another buyer's), epoch, 1: again, fence (of again).
local call, match, text = redis.call, string.match, string.format
local meta = call('HMGET', KEYS[1], 'place', 'high', 'orders_left', 'buyers_left', 'out_max')
local again = ARGV[10] == '1'
if meta[1] ~= ARGV[1] and not (again and meta[1] == ARGV[1] .. ' closed') then
    return 'X ' .. (meta[1] or '-')
end
if again and ARGV[11] ~= '0' then
    local fence = call('HGET', KEYS[1], 'fence')
    if tonumber(ARGV[11]) < tonumber(fence) then
        return 'F ' .. fence
    end
end
local item = call('HMGET', KEYS[2], 'available', 'locked', 'version', 'rule')
if not item[1] then
    return VERDICT_REFUSED .. ' ' .. REFUSAL_NO_SUCH_ITEM .. ' 0 0 0 0'
end

local limit, state, starts, ends = match(item[4], '^(%d+) (%d+) (%-?%d+) (%-?%d+)')
local held, ended, barred = '0', '0', '0'
local buyer = call('HGET', KEYS[3], ARGV[3])
if buyer then
    held, ended, barred = match(buyer, '^(%d+) (%d+) (%d)$')
end
local function refuse(refusal)
    return VERDICT_REFUSED .. ' ' .. refusal .. ' ' .. held .. ' ' .. limit .. ' ' .. item[1] .. ' '
        .. item[2]
end

local order = call('HGET', KEYS[4], ARGV[2])
if order then
    local user, qty = match(order, '^(%d+) (%d+) ')
    if user ~= ARGV[3] then
        return refuse(REFUSAL_BAD_TICKET)
    elseif qty ~= ARGV[5] then
        return refuse(REFUSAL_DIFFERENT_REQUEST)
    end
    return VERDICT_SAME .. ' 0 ' .. held .. ' ' .. limit .. ' ' .. item[1] .. ' ' .. item[2]
        .. ' o ' .. order
end

-- Times go on as the texts they are. A buyer's is not below the highest seen.
local now, now_text, high = tonumber(ARGV[6]), ARGV[6], tonumber(meta[2])
if not again and now < high then
    now, now_text = high, meta[2]
end
local fits
if limit == '1' then
    fits = ARGV[8] == ended
else
    fits = ARGV[8] == '-1'
end
if not fits or not again and now >= tonumber(ARGV[7]) then
    return refuse(REFUSAL_BAD_TICKET)
end
state = tonumber(state)
if now >= tonumber(ends) or not again and state == SALE_CLOSED then
    return refuse(REFUSAL_ENDED)
elseif not again and state ~= SALE_WARM and state ~= SALE_OPEN then
    return refuse(REFUSAL_NOT_OPEN)
elseif now < tonumber(starts) then
    return refuse(REFUSAL_TOO_EARLY)
elseif item[1] == '0' then
    return refuse(REFUSAL_SOLD_OUT)
elseif barred ~= '0' then
    return refuse(REFUSAL_BARRED)
end
local available, qty, holds = tonumber(item[1]), tonumber(ARGV[5]), tonumber(held)
if tonumber(ended) >= BUYER_ENDED_MAX or limit ~= '0' and holds + qty > tonumber(limit) then
    return refuse(REFUSAL_LIMIT_REACHED)
elseif qty > available then
    return refuse(REFUSAL_SOLD_OUT)
elseif tonumber(meta[3]) <= 0 or not buyer and tonumber(meta[4]) <= 0
    or holds + qty > UINT32_MAX then
    return refuse(REFUSAL_OVERLOADED)
elseif meta[5] ~= '0' and not again and call('XLEN', KEYS[5]) >= tonumber(meta[5]) then
    return refuse(REFUSAL_OVERLOADED)
end

order = ARGV[3] .. ' ' .. ARGV[5] .. ' ' .. ORDER_QUEUED .. ' 0 1 ' .. now_text .. ' 0'
call('XADD', KEYS[5], '*', 'reserve', '1 ' .. ARGV[9] .. ' ' .. ARGV[2] .. ' ' .. ARGV[3] .. ' '
    .. ARGV[4] .. ' ' .. ARGV[5] .. ' ' .. now_text)
local left, taken = text('%d', available - qty), text('%d', item[2] + qty)
held = text('%d', holds + qty)
call('HSET', KEYS[2], 'available', left, 'locked', taken, 'version', text('%d', item[3] + 1))
call('HSET', KEYS[3], ARGV[3], held .. ' ' .. ended .. ' 0')
call('HSET', KEYS[4], ARGV[2], order)
call('HSET', KEYS[1], 'high', now > high and now_text or meta[2],
    'orders_left', text('%d', meta[3] - 1), 'buyers_left', buyer and meta[4]
    or text('%d', meta[4] - 1))
return VERDICT_DONE .. ' 0 ' .. held .. ' ' .. limit .. ' ' .. left .. ' ' .. taken .. ' o ' .. order
