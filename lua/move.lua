#!lua
-- Ledger events of one order: confirm, refuse, pay, cancel, cancel_late, cancel_cooling, expire,
-- expire_cooling. Publishes the order, and the item if units came back.
-- KEYS: meta, item, the order's bucket.
-- ARGV: those of event.lua, then order id, state before, state after, time (pay_by, or the end of the
--       cooling time), reason, item, key prefix of buyers' buckets, user and quantity (0: not known).
local order = call('HGET', KEYS[3], ARGV[7])
if not order and kind == GATE_FAIL_ORDER and ARGV[14] ~= '0' and call('EXISTS', KEYS[2]) == 1 then
    -- The order failed without a decision here (it was undecided, or the decision was lost). Store
    -- it, so that the buyer sees it and it counts as an attempt.
    local key = ARGV[13] .. tonumber(ARGV[14]) % REDIS_BUCKETS
    local buyer = call('HGET', key, ARGV[14])
    local held, ended, barred = match(buyer or '0 0 0', '^(%d+) (%d+) (%d+)$')
    local left = call('HMGET', KEYS[1], 'orders_left', 'buyers_left')
    call('HSET', key, ARGV[14], held .. ' ' .. text('%d', ended + 1) .. ' ' .. barred)
    order = ARGV[14] .. ' ' .. ARGV[15] .. ' ' .. ARGV[9] .. ' ' .. ARGV[11] .. ' 2 ' .. ARGV[5] .. ' 0'
    call('HSET', KEYS[3], ARGV[7], order)
    if tonumber(left[1]) > 0 then
        call('HINCRBY', KEYS[1], 'orders_left', -1)
    end
    if not buyer and tonumber(left[2]) > 0 then
        call('HINCRBY', KEYS[1], 'buyers_left', -1)
    end
    write_meta(event)
    tell('o ' .. ARGV[7] .. ' ' .. order)
    return VERDICT_DONE .. ' 0 0 0 0 0 o ' .. order
elseif not order then
    return VERDICT_REFUSED .. ' ' .. REFUSAL_NOT_FOUND .. ' 0 0 0 0'
end
local user, qty_text, state, reason, version, created, pay_by =
    match(order, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%-?%d+) (%-?%d+)$')
if state == ARGV[9] then
    return VERDICT_ALREADY_APPLIED .. ' 0 0 0 0 0 o ' .. order
elseif state ~= ARGV[8] then
    return VERDICT_REFUSED .. ' ' .. REFUSAL_BAD_STATE .. ' 0 0 0 0'
end

local item = call('HMGET', KEYS[2], 'available', 'locked', 'version', 'rule', 'sold', 'total')
local qty, to = tonumber(qty_text), tonumber(ARGV[9])
local returns = to ~= ORDER_LOCKED and to ~= ORDER_PAID
local buyers_key, held, ended, barred
if returns then
    buyers_key = ARGV[13] .. tonumber(user) % REDIS_BUCKETS
    held, ended, barred = match(call('HGET', buyers_key, user) or '', '^(%d+) (%d+) (%d+)$')
end
-- Impossible in an intact segment: change nothing, it needs recovery.
if not item[1] or tonumber(item[2]) < qty or returns and (not held or tonumber(held) < qty) then
    return redis.error_reply('BROKEN order ' .. ARGV[7] .. ' has no units to move')
end

local available, locked, next_version = item[1], item[2], text('%d', item[3] + 1)
if to ~= ORDER_LOCKED then
    locked = text('%d', locked - qty)
end
if to == ORDER_LOCKED then
    pay_by = ARGV[10]
    call('HSET', KEYS[2], 'version', next_version)
elseif to == ORDER_PAID then
    call('HSET', KEYS[2], 'locked', locked, 'version', next_version,
        'sold', text('%d', item[5] + qty))
else
    if to == ORDER_FAILED then
        reason = ARGV[11]
    elseif kind == GATE_CANCEL_LATE then
        reason = REFUSAL_BARRED
    end
    if to == ORDER_FAILED and tonumber(reason) == REFUSAL_NO_STOCK then
        call('HSET', KEYS[2], 'locked', locked, 'version', next_version,
            'total', text('%d', item[6] - qty))
    else
        available = text('%d', available + qty)
        call('HSET', KEYS[2], 'available', available, 'locked', locked, 'version', next_version)
    end
    if kind == GATE_CANCEL_LATE or to == ORDER_EXPIRED and match(item[4], ' (%d)$') ~= '0' then
        barred = '1'
    else
        ended = text('%d', ended + 1)
        -- A later cooling time never ends an earlier one sooner, nor a bar.
        if (kind == GATE_CANCEL_COOLING or kind == GATE_EXPIRE_COOLING) and barred ~= '1'
            and tonumber(ARGV[10]) > tonumber(barred) then
            barred = ARGV[10]
        end
    end
    call('HSET', buyers_key, user, text('%d', held - qty) .. ' ' .. ended .. ' ' .. barred)
end
order = user .. ' ' .. qty_text .. ' ' .. ARGV[9] .. ' ' .. reason .. ' '
    .. text('%d', version + 1) .. ' ' .. created .. ' ' .. pay_by
call('HSET', KEYS[3], ARGV[7], order)
write_meta(event)
tell('o ' .. ARGV[7] .. ' ' .. order)
if available ~= item[1] then
    tell('i ' .. ARGV[12])
end
return VERDICT_DONE .. ' 0 0 0 ' .. available .. ' ' .. locked .. ' o ' .. order
