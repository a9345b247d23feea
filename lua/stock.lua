#!lua
-- Ledger events of an item's units: restock, transfer_in (and transfer_out, which no ledger writes; the
-- conformance suite sends it, because the gate's command has it). Also, without an event, takes units
-- for a transfer: as many as are available, up to the amount, once per transfer id.
-- KEYS: meta, item, units taken by transfers.
-- ARGV: those of event.lua, then amount, item, the transfer's id.
if asked then
    local taken = call('HGET', KEYS[3], ARGV[9])
    if taken then
        return VERDICT_ALREADY_APPLIED .. ' 0 0 0 0 0 t ' .. taken
    end
end
local item = call('HMGET', KEYS[2], 'available', 'locked', 'version', 'total')
if not item[1] then
    return VERDICT_REFUSED .. ' ' .. REFUSAL_NO_SUCH_ITEM .. ' 0 0 0 0'
end
local available, total, amount = tonumber(item[1]), tonumber(item[4]), tonumber(ARGV[7])
local answer = ''
if asked then
    if amount > available then
        amount = available
    end
    local taken = text('%d', amount)
    call('HSET', KEYS[3], ARGV[9], taken)
    answer = ' t ' .. taken
    amount = -amount
elseif kind == GATE_TRANSFER_OUT then
    if available < amount then
        return VERDICT_REFUSED .. ' ' .. REFUSAL_SOLD_OUT .. ' 0 0 ' .. item[1] .. ' 0'
    end
    amount = -amount
elseif amount > STOCK_MAX or total + amount > STOCK_MAX then
    return VERDICT_REFUSED .. ' ' .. REFUSAL_BAD_REQUEST .. ' 0 0 ' .. item[1] .. ' 0'
end
call('HSET', KEYS[2], 'available', text('%d', available + amount),
    'total', text('%d', total + amount), 'version', text('%d', item[3] + 1))
write_meta(event)
tell('i ' .. ARGV[8])
return VERDICT_DONE .. ' 0 0 0 ' .. text('%d', available + amount) .. ' ' .. item[2] .. answer
