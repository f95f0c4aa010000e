/// <reference lib="dom" />
import { GrantdError } from './error.js'
import * as errors from './reasons.js'
import type { AccountView, Destination, Event, EventType, LoginWaitResult } from './types.js'

export { GrantdError, errors }
export * from './types.js'

/** Seconds, and a signal that ends the wait. */
export interface CallOptions {
  /** Seconds to wait for a refresh; 30 by default, at most 300. */
  timeout?: number
  signal?: AbortSignal
}

export interface TokenOptions extends CallOptions {
  /** The scopes of the token, if fewer than granted (RFC 6749 §6). */
  scopes?: string[]
  /** The resource that the token is for (RFC 8707). */
  resource?: string
  /** Seconds that the token must still be valid. */
  minTtl?: number
}

/** The result of `token.get`. Printing and JSON show no secret. Times are Unix seconds. */
export class Token {
  private constructor ()
  /** Empty if the provider uses sessions; then `cookie` and `sessionId` are set. */
  readonly accessToken: string
  readonly tokenType: string
  readonly kind?: string
  readonly sessionId?: string
  readonly cookie?: string
  /** Undefined: the provider gave no lifetime. */
  readonly expiresAt?: number
  readonly scope: string[]
  readonly account: string
  readonly provider: string
  readonly issuer?: string
  readonly generation: number
  readonly dpopThumbprint?: string
  readonly extra: Record<string, unknown>
  /** The header of a request: `authorization`, or `cookie` for a session. */
  readonly headers: Record<string, string>
}

/** A client of the broker. It keeps one connection, which opens with the first call. */
export class Client {
  /** `socket`: path of the broker's socket; absent: GRANTD_SOCKET, then the user's broker, then the system's. */
  constructor (options?: { socket?: string })
  /** An access token that is valid now. */
  token (account: string, options?: TokenOptions): Promise<Token>
  /** Reports that a server answered 401 to this token. Returns the generation of the current token. */
  reportRejected (token: { account: string, generation: number }, options?: CallOptions): Promise<number>
  /** All accounts that this process may see. */
  accounts (options?: CallOptions): Promise<AccountView[]>
  /** Signs a user in. `show` gets the places to sign in. */
  login (provider: string, options: {
    account?: string, show: (destinations: Destination[]) => void, signal?: AbortSignal, [param: string]: unknown
  }): Promise<LoginWaitResult>
  /** Any method of docs/rpc.md. */
  call (method: string, params?: Record<string, unknown>, options?: CallOptions): Promise<unknown>
  /** Events from now on, on a separate connection. It throws Disconnected when the broker ends. */
  events (types?: EventType[], options?: { signal?: AbortSignal }): AsyncGenerator<Event, void, void>
  /** A `fetch` that adds the account's token, and after 401 reports it and sends the request once more. */
  fetch (account: string, options?: Omit<TokenOptions, 'signal'>): typeof globalThis.fetch
  /** Closes the connection. The next call opens another. */
  close (): void
}

export const token: Client['token']
export const reportRejected: Client['reportRejected']
export const login: Client['login']
export const events: Client['events']
export const fetch: Client['fetch']
