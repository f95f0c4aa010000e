/** A call that failed. `message` is for users and ends with the hint; it never contains a token. */
export class GrantdError extends Error {
  /** The message without the hint; its words may change. */
  readonly text: string
  /** The word to branch on (docs/errors.md); empty for an error of JSON-RPC itself. */
  readonly reason: string
  /** The user's next step. */
  readonly hint: string
  /** The number of JSON-RPC; 0 for an error that the library found. */
  readonly code: number
  /** Seconds after which another attempt is useful. */
  readonly retryAfter?: number
  /** The provider's `error`, `error_description` and `error_uri` (RFC 6749 §5.2). */
  readonly oauth?: { error?: string, error_description?: string, error_uri?: string }
  readonly detail?: unknown
}
