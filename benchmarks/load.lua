-- One kind of request against the table `orders` (pk S, sk S), for wrk:
--   wrk -t1 -c32 -d5s -s load.lua URL -- put|get|update|query [partition keys]
-- Prints how many answers were not 200 besides wrk's own figures.
local operation, keys = "put", 5000
failed = 0
local targets = { put = "PutItem", get = "GetItem", update = "UpdateItem", query = "Query" }
local note = string.rep("x", 100)
local threads = {}

function setup(thread)
  table.insert(threads, thread)
end

function init(args)
  operation = args[1] or operation
  keys = tonumber(args[2]) or keys
  math.randomseed(20261121)
end

local function body()
  local pk, sk = "user#" .. math.random(1, keys), "order#" .. math.random(1, 20)
  local key = '{"pk":{"S":"' .. pk .. '"},"sk":{"S":"' .. sk .. '"}}'
  if operation == "put" then
    return '{"TableName":"orders","Item":{"pk":{"S":"' .. pk .. '"},"sk":{"S":"' .. sk ..
      '"},"total":{"N":"123.45"},"status":{"S":"SHIPPED"},"qty":{"N":"3"},"note":{"S":"' .. note .. '"}}}'
  elseif operation == "get" then
    return '{"TableName":"orders","Key":' .. key .. '}'
  elseif operation == "update" then
    return '{"TableName":"orders","Key":' .. key ..
      ',"UpdateExpression":"SET qty = if_not_exists(qty, :z) + :o, #s = :s",' ..
      '"ConditionExpression":"attribute_not_exists(locked)","ExpressionAttributeNames":{"#s":"status"},' ..
      '"ExpressionAttributeValues":{":z":{"N":"0"},":o":{"N":"1"},":s":{"S":"PAID"}}}'
  end
  return '{"TableName":"orders","KeyConditionExpression":"pk = :p",' ..
    '"ExpressionAttributeValues":{":p":{"S":"' .. pk .. '"}}}'
end

function request()
  return wrk.format("POST", "/", {
    ["X-Amz-Target"] = "DynamoDB_20120810." .. targets[operation],
    ["Content-Type"] = "application/x-amz-json-1.0",
    ["X-Amz-Date"] = "20261121T080000Z",
    ["Authorization"] = "AWS4-HMAC-SHA256 Credential=fake/20261121/us-east-1/dynamodb/aws4_request, " ..
      "SignedHeaders=host;x-amz-date;x-amz-target, Signature=0000",
  }, body())
end

function response(status)
  if status ~= 200 then failed = failed + 1 end
end

function done(summary, latency)
  local refused = 0
  for _, thread in ipairs(threads) do refused = refused + thread:get("failed") end
  io.write(string.format("RESULT %.1f %.0f %d\n",
    summary.requests / (summary.duration / 1e6), latency:percentile(99), refused))
end
