// Answers each request with the document at API_URL, fetched with the token of ACCOUNT: node service.js [PORT]
'use strict'

const http = require('node:http')
const grantd = require('grantd')

const { API_URL, ACCOUNT = 'work' } = process.env
// Adds the token. After 401 it reports the token and sends the request once more.
const get = grantd.fetch(ACCOUNT)

async function answered () {
  try {
    const answer = await get(API_URL)
    return answer.ok ? { status: 200, body: await answer.text() } : { status: 502 }
  } catch (error) {
    if (error instanceof grantd.errors.TemporarilyUnavailable) {
      return { status: 503, headers: { 'retry-after': Math.round(error.retryAfter ?? 60) } }
    }
    // The hint of the error is for the administrator, not for the service's users.
    console.error(error.message)
    return { status: error instanceof grantd.errors.LoginRequired ? 503 : 502 }
  }
}

http.createServer(async (request, response) => {
  const { status, headers, body } = await answered()
  response.writeHead(status, headers).end(body)
}).listen(Number(process.argv[2] ?? 8080), '127.0.0.1')
