'use strict'

const { GrantdError } = require('./error.js')
const { connect } = require('./place.js')
const reasons = require('./reasons.js')

// Bytes of one answer; requests without an answer; events that the program has not taken.
const LONGEST_LINE = 1 << 20
const MOST_WAITING = 1000
const MOST_EVENTS = 10_000

const bad = what => new reasons.BadAnswer(`the broker's answer ${what}`, { reason: 'bad_answer', hint: 'Run `grantctl doctor`.' })
const disconnected = () => new reasons.Disconnected('the broker closed the connection', { reason: 'disconnected', hint: 'Try again.' })
const late = () => new reasons.TimedOut('the broker did not answer in time', { reason: 'timed_out', hint: 'Try again.' })
const isObject = value => typeof value === 'object' && value !== null && !Array.isArray(value)

/** A connection that several calls use at once. It keeps the process running only while a call waits. */
class Channel {
  static async open (place) {
    return new Channel(await connect(place))
  }

  constructor (socket) {
    this.socket = socket
    this.waiting = new Map()
    this.last = 0
    this.pieces = []
    this.length = 0
    this.isClosed = false
    this.events = []
    this.onEvent = null
    socket.unref()
    socket.on('data', data => this.received(data))
    // `close` follows each error.
    socket.on('error', () => {})
    socket.on('close', () => this.fail(disconnected))
  }

  received (data) {
    try {
      let start = 0
      for (let end; (end = data.indexOf(10, start)) >= 0; start = end + 1) {
        this.keep(data.subarray(start, end))
        const line = this.pieces.length === 1 ? this.pieces[0] : Buffer.concat(this.pieces)
        this.pieces = []
        this.length = 0
        this.deliver(parsed(line))
      }
      if (start < data.length) this.keep(data.subarray(start))
    } catch {
      // The error of JSON.parse quotes the text, which may contain a token.
      this.fail(() => bad('is not valid'))
    }
  }

  keep (piece) {
    this.length += piece.length
    if (this.length > LONGEST_LINE) throw bad('is too long')
    this.pieces.push(piece)
  }

  deliver (message) {
    const waiter = this.waiting.get(message.id)
    if (waiter) {
      this.waiting.delete(message.id)
      waiter.resolve(message)
    } else if (this.onEvent && message.method === 'event' && isObject(message.params)) {
      if (this.events.push(message.params) > MOST_EVENTS) return this.fail(disconnected)
      this.onEvent()
    }
    // Late answers, and notifications of a newer broker, have no waiter.
  }

  /** False also between the end of the socket and its event `close`. */
  get isUsable () {
    return !this.isClosed && !this.socket.destroyed
  }

  fail (error) {
    if (this.isClosed) return
    this.isClosed = true
    this.socket.destroy()
    const waiting = [...this.waiting.values()]
    this.waiting.clear()
    for (const waiter of waiting) waiter.reject(error())
    this.onEvent?.()
  }

  /** New requests use another connection; this one ends after its last answer. */
  replace () {
    this.isReplaced = true
    if (this.waiting.size === 0) this.fail(disconnected)
  }

  /** The answer to a request. `signal` ends the wait; a late answer is ignored. */
  async exchange (method, params, milliseconds, signal) {
    signal?.throwIfAborted()
    if (!this.isUsable) throw disconnected()
    if (this.waiting.size >= MOST_WAITING) {
      throw new reasons.Overloaded('too many requests of this process wait', { reason: 'overloaded', hint: 'Make fewer calls at once.' })
    }
    const id = ++this.last
    let timer, abort
    try {
      return await new Promise((resolve, reject) => {
        this.waiting.set(id, { resolve, reject })
        this.socket.ref()
        timer = setTimeout(() => {
          // The broker ends each request by itself: this connection is of no use any more.
          reject(late())
          this.waiting.delete(id)
          this.fail(disconnected)
        }, milliseconds)
        abort = () => reject(signal.reason)
        signal?.addEventListener('abort', abort)
        this.socket.write(JSON.stringify({ jsonrpc: '2.0', id, method, params }) + '\n')
      })
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
      this.waiting.delete(id)
      // Without a handle it would add a listener each time.
      if (this.waiting.size === 0 && this.isUsable) this.socket.unref()
      if (this.isReplaced) this.replace()
    }
  }
}

const decoder = new TextDecoder('utf-8', { fatal: true })

function parsed (line) {
  const message = JSON.parse(decoder.decode(line))
  if (!isObject(message)) throw bad('is not an object')
  return message
}

/** The result of an answer; an error of the wire is thrown. */
function outcome (message) {
  const { error } = message
  if (error === undefined || error === null) {
    if (message.result === undefined) throw bad('has no result')
    return message.result
  }
  if (!isObject(error)) throw bad('has an error that is not an object')
  const data = isObject(error.data) ? error.data : {}
  const reason = String(data.reason ?? '')
  const Kind = Object.hasOwn(reasons.BY_REASON, reason) ? reasons.BY_REASON[reason] : GrantdError
  throw new Kind(String(error.message ?? ''), {
    reason, hint: String(data.hint ?? ''), code: error.code, retryAfter: data.retry_after, oauth: data.oauth, detail: data.detail
  })
}

module.exports = { Channel, bad, disconnected, isObject, outcome }
