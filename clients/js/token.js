'use strict'

const { bad } = require('./channel.js')

/** The result of `token.get`. Printing and JSON show no secret. */
exports.Token = class Token {
  #result

  constructor (result) {
    const secret = result.access_token || result.cookie
    if (typeof secret !== 'string' || !secret || !Number.isSafeInteger(result.generation) || result.generation < 0) {
      throw bad('has no token')
    }
    this.#result = result
  }

  get accessToken () { return this.#result.access_token ?? '' }
  get tokenType () { return this.#result.token_type ?? 'Bearer' }
  get kind () { return this.#result.kind }
  get sessionId () { return this.#result.session_id }
  get cookie () { return this.#result.cookie }
  get expiresAt () { return this.#result.expires_at ?? undefined }
  get scope () { return this.#result.scope ?? [] }
  get account () { return this.#result.account }
  get provider () { return this.#result.provider }
  get issuer () { return this.#result.issuer }
  get generation () { return this.#result.generation }
  get dpopThumbprint () { return this.#result.dpop_thumbprint }
  get extra () { return this.#result.extra ?? {} }

  get headers () {
    return this.accessToken ? { authorization: `${this.tokenType} ${this.accessToken}` } : { cookie: this.cookie }
  }

  toJSON () {
    return { account: this.account, generation: this.generation }
  }

  toString () {
    return `token of ${this.account}, generation ${this.generation}, ‹redacted›`
  }
}
