-- One kind of request against the table `orders` (pk S, sk S), for wrk:
--   wrk -t1 -c32 -d5s -s load.lua URL -- put|fresh|get|update|query|writeN|getN|scan|filter [partition keys [note]]
-- A fresh put changes the item each time, the other one leaves it as it is. N is the number of items of a batch, and
-- `note` the bytes of the attribute that fills an item, 100 by default.
-- Prints one line for the program that ran it: RESULT requests a second, p50 and p99 in us, answers that were not 200.
local operation, keys, size, rest = "put", 5000, 1, ""
failed = 0
local targets = {
  put = "PutItem", fresh = "PutItem", get = "GetItem", update = "UpdateItem", query = "Query",
  writes = "BatchWriteItem", gets = "BatchGetItem", scan = "Scan", filter = "Scan",
}
local threads = {}

function setup(thread)
  table.insert(threads, thread)
end

function init(args)
  local batch, count = (args[1] or operation):match("^(%a+)(%d+)$")
  operation = batch and batch .. "s" or args[1] or operation
  size = tonumber(count) or size
  keys = tonumber(args[2]) or keys
  rest = '"total":{"N":"123.45"},"status":{"S":"SHIPPED"},"qty":{"N":"3"},"note":{"S":"' ..
    string.rep("x", tonumber(args[3]) or 100) .. '"}'
  math.randomseed(20261121)
end

local function key(user, order)
  return '"pk":{"S":"user#' .. user .. '"},"sk":{"S":"order#' .. order .. '"}'
end

-- Different keys: at most twenty of one collection, the rest of the next.
local function batch(before, after)
  local first, parts = math.random(1, keys), {}
  for n = 0, size - 1 do
    parts[n + 1] = before .. key((first + math.floor(n / 20) - 1) % keys + 1, n % 20 + 1) .. after
  end
  return table.concat(parts, ",")
end

-- The first page of one of sixteen segments.
local function segment()
  return '"TotalSegments":16,"Segment":' .. math.random(0, 15)
end

local bodies = {
  put = function(one) return '{"TableName":"orders","Item":{' .. one .. "," .. rest .. "}}" end,
  fresh = function(one)
    count = (count or os.time() % 100000 * 1000000) + 1 -- another run begins elsewhere
    return '{"TableName":"orders","Item":{' .. one ..
      ',"count":{"N":"' .. string.format("%d", count) .. '"},' .. rest .. "}}"
  end,
  get = function(one) return '{"TableName":"orders","Key":{' .. one .. "}}" end,
  update = function(one)
    return '{"TableName":"orders","Key":{' .. one ..
      '},"UpdateExpression":"SET qty = if_not_exists(qty, :z) + :o, #s = :s",' ..
      '"ConditionExpression":"attribute_not_exists(locked)","ExpressionAttributeNames":{"#s":"status"},' ..
      '"ExpressionAttributeValues":{":z":{"N":"0"},":o":{"N":"1"},":s":{"S":"PAID"}}}'
  end,
  query = function()
    return '{"TableName":"orders","KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"user#' ..
      math.random(1, keys) .. '"}}}'
  end,
  writes = function()
    return '{"RequestItems":{"orders":[' .. batch('{"PutRequest":{"Item":{', "," .. rest .. "}}}") .. "]}}"
  end,
  scan = function() return '{"TableName":"orders",' .. segment() .. "}" end,
  filter = function()
    return '{"TableName":"orders","FilterExpression":"sk < :s","ExpressionAttributeValues":{":s":{"S":"order"}},' ..
      segment() .. "}"
  end,
  gets = function()
    return '{"RequestItems":{"orders":{"Keys":[' .. batch("{", "}") .. "]}}}"
  end,
}

function request()
  return wrk.format("POST", "/", {
    ["X-Amz-Target"] = "DynamoDB_20120810." .. targets[operation],
    ["Content-Type"] = "application/x-amz-json-1.0",
    ["X-Amz-Date"] = "20261121T080000Z",
    ["Authorization"] = "AWS4-HMAC-SHA256 Credential=fake/20261121/us-east-1/dynamodb/aws4_request, " ..
      "SignedHeaders=host;x-amz-date;x-amz-target, Signature=0000",
  }, bodies[operation](key(math.random(1, keys), math.random(1, 20))))
end

function response(status)
  if status ~= 200 then failed = failed + 1 end
end

function done(summary, latency)
  local refused = 0
  for _, thread in ipairs(threads) do refused = refused + thread:get("failed") end
  local errors = summary.errors
  refused = refused + errors.connect + errors.read + errors.write + errors.timeout
  io.write(string.format("RESULT %.1f %.0f %.0f %d\n",
    summary.requests / (summary.duration / 1e6), latency:percentile(50), latency:percentile(99), refused))
end
