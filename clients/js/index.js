'use strict'

const { GrantdError } = require('./error.js')
const { Channel, bad, disconnected, isObject, outcome } = require('./channel.js')
const { place } = require('./place.js')
const reasons = require('./reasons.js')
const { Token } = require('./token.js')

// The broker's own limit if a request names none, and how much longer the client waits for the broker's answer.
const DEFAULT_SECONDS = 30
const GRACE_SECONDS = 5
const LOGIN_WAIT_SECONDS = 30

class Client {
  #socket
  #opening = null
  #channel = null

  constructor ({ socket } = {}) {
    this.#socket = socket
  }

  async token (account, { scopes, resource, minTtl, timeout, signal } = {}) {
    // JSON leaves out what is undefined.
    const params = { account, scopes, resource, min_ttl: minTtl }
    return new Token(object(await this.call('token.get', params, { timeout, signal })))
  }

  async reportRejected ({ account, generation }, { timeout, signal } = {}) {
    const result = object(await this.call('token.report_rejected', { account, generation }, { timeout, signal }))
    if (!Number.isSafeInteger(result.generation)) throw bad('has no generation')
    return result.generation
  }

  async accounts (options) {
    const found = []
    for (let after; ;) {
      const result = object(await this.call('account.list', { after }, options))
      found.push(...(result.accounts ?? []))
      // A page that does not go on would be requested without an end.
      if (!result.next || result.next === after) return found
      after = result.next
    }
  }

  async login (provider, { account, show, signal, ...params }) {
    const started = object(await this.call('login.start', { ...params, provider, account }, { signal }))
    show(started.destinations ?? [])
    // It ends: the broker ends each login at its `expires_at` with an error.
    for (;;) {
      const result = object(await this.call('login.wait', { login_id: started.login_id }, { timeout: LOGIN_WAIT_SECONDS, signal }))
      if (result.state !== 'pending') return result
    }
  }

  async call (method, params = {}, { timeout, signal } = {}) {
    if (timeout !== undefined && reasons.TIMED.has(method)) params = { ...params, timeout }
    const milliseconds = ((timeout ?? DEFAULT_SECONDS) + GRACE_SECONDS) * 1000
    const channel = await this.#open()
    try {
      return outcome(await channel.exchange(method, params, milliseconds, signal))
    } catch (error) {
      const isUseful = error instanceof reasons.ShuttingDown ||
        (error instanceof reasons.Disconnected && reasons.REPEATABLE.has(method))
      if (!isUseful) throw error
    }
    if (this.#channel === channel) this.#channel = null
    channel.replace()
    return outcome(await (await this.#open()).exchange(method, params, milliseconds, signal))
  }

  async * events (types, { signal } = {}) {
    const channel = await Channel.open(place(this.#socket))
    let wake = () => {}
    channel.onEvent = () => wake()
    const abort = () => channel.fail(disconnected)
    signal?.addEventListener('abort', abort)
    try {
      outcome(await channel.exchange('events.subscribe', { events: types }, (DEFAULT_SECONDS + GRACE_SECONDS) * 1000, signal))
      channel.socket.ref()
      for (;;) {
        while (channel.events.length > 0) yield channel.events.shift()
        signal?.throwIfAborted()
        if (channel.isClosed) throw disconnected()
        await new Promise(resolve => { wake = resolve })
      }
    } finally {
      signal?.removeEventListener('abort', abort)
      channel.fail(disconnected)
    }
  }

  /** A `fetch` that adds the token of an account. */
  fetch (account, options = {}) {
    return async (input, init = {}) => {
      const { signal } = init
      const token = await this.token(account, { ...options, signal })
      const response = await send(input, init, token)
      if (response.status !== 401 || isElsewhere(response, input) || !isInMemory(input, init)) return response
      await this.reportRejected(token, { signal })
      const fresh = await this.token(account, { ...options, signal })
      await response.body?.cancel()
      return send(input, init, fresh)
    }
  }

  close () {
    this.#channel?.fail(disconnected)
    this.#channel = null
  }

  async #open () {
    if (this.#channel?.isUsable) return this.#channel
    // One connection for calls that begin at once.
    this.#opening ??= Channel.open(place(this.#socket)).finally(() => { this.#opening = null })
    this.#channel = await this.#opening
    return this.#channel
  }
}

function object (result) {
  if (!isObject(result)) throw bad('is not an object')
  return result
}

function send (input, init, token) {
  const headers = new Headers(init.headers ?? (input instanceof Request ? input.headers : undefined))
  for (const [name, value] of Object.entries(token.headers)) headers.set(name, value)
  return globalThis.fetch(input, { ...init, headers })
}

/** After a redirect to another origin, to which fetch does not send the token. */
function isElsewhere (response, input) {
  return response.redirected && new URL(response.url).origin !== new URL(input instanceof Request ? input.url : input).origin
}

/** Whether the body can be sent again. */
function isInMemory (input, { body }) {
  if (body === undefined || body === null) return !(input instanceof Request && input.body)
  return typeof body === 'string' || body instanceof ArrayBuffer || ArrayBuffer.isView(body) || body instanceof URLSearchParams ||
    body instanceof Blob || body instanceof FormData
}

/** The client of the functions below. */
const shared = new Client()

exports.Client = Client
exports.Token = Token
exports.GrantdError = GrantdError
exports.errors = reasons
exports.token = (account, options) => shared.token(account, options)
exports.reportRejected = (token, options) => shared.reportRejected(token, options)
exports.fetch = (account, options) => shared.fetch(account, options)
exports.events = (types, options) => shared.events(types, options)
exports.login = (provider, options) => shared.login(provider, options)
