'use strict'
// The driver of JavaScript: driver.js FOLDER.

const { fork } = require('node:child_process')
const readline = require('node:readline')
const util = require('node:util')
const grantd = require(process.argv[2])

const client = new grantd.Client()
const say = answer => process.stdout.write(JSON.stringify(answer) + '\n')
const options = ({ scopes, resource, min_ttl: minTtl, timeout }) => ({ scopes, resource, minTtl, timeout })

function described (error) {
  if (!(error instanceof grantd.GrantdError)) throw error
  const Kind = grantd.errors.BY_REASON[error.reason] ?? grantd.GrantdError
  return {
    reason: error.reason, hint: error.hint, message: error.text, retry_after: error.retryAfter, is_type: error.constructor === Kind,
    texts: [String(error), util.inspect(error), JSON.stringify(error)]
  }
}

const members = token => ({
  access_token: token.accessToken, token_type: token.tokenType, expires_at: token.expiresAt, scope: token.scope, account: token.account,
  provider: token.provider, generation: token.generation
})

const commands = {
  token: async command => members(await client.token(command.account, options(command))),
  report: command => client.reportRejected(command),
  accounts: () => client.accounts(),
  login: ({ provider, account }) => client.login(provider, { account, show: places => say({ ok: places }) }),

  // A new program: `cluster` does the same.
  async fork ({ account, slow }) {
    const before = (await client.token(account)).accessToken
    const waiting = client.token(slow)
    await new Promise(resolve => setTimeout(resolve, 50))
    const child = await new Promise((resolve, reject) => {
      fork(__filename, [process.argv[2], account]).on('message', resolve).on('exit', () => reject(new Error('the child sent nothing')))
    })
    const after = (await client.token(account)).accessToken
    await waiting
    return { before, child, after }
  },

  async print ({ account }) {
    const token = await grantd.token(account)
    return [
      String(token), `${token}`, JSON.stringify(token), JSON.stringify({ token, client }), util.inspect(token), util.format('%o', token),
      util.inspect(client, { depth: 9, showHidden: true }), util.inspect(token, { showHidden: true, getters: false })
    ]
  },

  async many ({ account, count, threads, separate }) {
    let good = 0
    const failed = []
    await Promise.all(Array.from({ length: threads }, async () => {
      const used = separate ? new grantd.Client() : client
      for (let left = count / threads; left > 0; left--) {
        try {
          await used.token(account)
          good++
        } catch (error) {
          failed.push(described(error))
        }
      }
      if (separate) used.close()
    }))
    return { good, failed: failed.slice(0, 3) }
  },

  async interrupted ({ account, then }) {
    const signal = AbortSignal.timeout(200)
    const wasInterrupted = await client.token(account, { signal }).then(() => false, error => error === signal.reason)
    return { was_interrupted: wasInterrupted, token: (await client.token(then)).accessToken }
  },

  async events ({ types, account }) {
    setTimeout(() => say({ ok: 'subscribed' }), 300)
    for await (const event of client.events(types)) if (event.account === account) return event
  },

  async fetch ({ account, url, body, stream }) {
    const init = body ? { method: 'POST', body } : {}
    if (stream) Object.assign(init, { body: new Blob([body]).stream(), duplex: 'half' })
    const response = await client.fetch(account)(url, init)
    return { status: response.status, body: (await response.json()).body }
  }
}

async function main () {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const command = JSON.parse(line)
    try {
      const answer = await commands[command.do](command)
      say(answer?.skip ? answer : { ok: answer })
    } catch (error) {
      say({ error: described(error) })
    }
  }
  // No close: the kept connection does not keep the process running.
}

if (process.argv[3]) client.token(process.argv[3]).then(token => process.send(token.accessToken, () => process.disconnect()))
else main()
