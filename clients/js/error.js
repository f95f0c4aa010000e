'use strict'

/**
 * A call that failed. `message` is for users and ends with the hint; it never contains a token. The subclasses are one for
 * each reason; an unknown reason, and an error of JSON-RPC itself, is a plain `GrantdError`.
 */
exports.GrantdError = class GrantdError extends Error {
  constructor (text, { reason = '', hint = '', code = 0, retryAfter, oauth, detail } = {}) {
    super(hint ? `${text}: ${hint}` : text)
    this.name = this.constructor.name
    Object.assign(this, { text, reason, hint, code })
    if (retryAfter !== undefined) this.retryAfter = retryAfter
    if (oauth !== undefined) this.oauth = oauth
    if (detail !== undefined) this.detail = detail
  }
}
