public import OAuth

// Splits a grant into its stored part and its in-memory part. Of a million grants nearly all are idle.
extension Grant {
  /// The in-memory part of an idle grant.
  public struct Remainder: Sendable {
    fileprivate var rejectedGeneration: Int64?
    fileprivate var stamps: Stamps
    fileprivate var waitsForProvider: Bool
    fileprivate var soonestRetry: Timestamp?
    fileprivate var lonelyFailures: UInt8
    fileprivate var isUnfinished: Bool
    fileprivate var fellBack: Bool
    fileprivate var isDoubted: Bool
    fileprivate var followsUnanswered: Bool
    fileprivate var refusals: Refusals?
    fileprivate var jitter: Double
    fileprivate var attempts: UInt64
    fileprivate var idTokenNotes: IDTokenNotes?
    /// Without their tokens.
    fileprivate var narrowed: [SavedToken.Key: Narrowed]

    /// The grant holds a token that must be neither issued to callers nor stored.
    public var hasRejectedToken: Bool { rejectedGeneration != nil }

    /// Whether ``Grant/clockStepped(by:)`` would change the grant.
    public func movesWith(_ step: Duration) -> Bool {
      step < .zero || stamps.token || stamps.refreshToken || stamps.intent || !narrowed.isEmpty
    }
  }

  /// Nil: a request is in progress, or callers are waiting for one.
  public var remainder: Remainder? {
    guard case .idle = phase, superseded == nil, wanted.isEmpty else { return nil }
    return Remainder(
      rejectedGeneration: rejectedGeneration, stamps: stamps, waitsForProvider: waitsForProvider,
      soonestRetry: soonestRetry, lonelyFailures: lonelyFailures, isUnfinished: isUnfinished, fellBack: fellBack,
      isDoubted: isDoubted, followsUnanswered: followsUnanswered, refusals: refusals, jitter: jitter,
      attempts: attempts,
      idTokenNotes: idTokenNotes,
      narrowed: narrowed.mapValues { narrowed in
        var mark = narrowed
        mark.token = nil
        return mark
      })
  }

  /// Its secrets on disk could not be decrypted, so it has none of them.
  public var isUnreadable: Bool { saved.isUnreadable }

  /// All tokens, including refused ones.
  public var tokens: [SavedToken] { (token.map { [$0] } ?? []) + narrowed.values.compactMap(\.token) }

  /// Restores the grant.
  ///
  /// - Parameter tokens: the value of ``tokens``.
  public init(saved: SavedGrant, tokens: [SavedToken], intent: RefreshIntent?, remainder: Remainder) {
    self.init(saved: saved, token: tokens.first { !$0.key.isNarrowed }, intent: intent, jitter: remainder.jitter)
    narrowed = remainder.narrowed
    for token in tokens where token.key.isNarrowed { narrowed[token.key, default: Narrowed()].token = token }
    rejectedGeneration = remainder.rejectedGeneration
    stamps = remainder.stamps
    waitsForProvider = remainder.waitsForProvider
    soonestRetry = remainder.soonestRetry
    lonelyFailures = remainder.lonelyFailures
    isUnfinished = remainder.isUnfinished
    fellBack = remainder.fellBack
    isDoubted = remainder.isDoubted
    followsUnanswered = remainder.followsUnanswered
    refusals = remainder.refusals
    idTokenNotes = remainder.idTokenNotes
    numbersAttempts(after: remainder.attempts)
  }
}

extension SavedGrant {
  /// Its secrets on disk could not be decrypted, so it has none of them.
  public var isUnreadable: Bool {
    if case .loginRequired(.unreadable, _) = standing { true } else { false }
  }

  /// The provider of a grant whose provider cannot be read.
  public static let unreadableProvider: ProviderName = {
    guard let name = ProviderName(rawValue: "unreadable") else { preconditionFailure("it is a name") }
    return name
  }()

  /// The grant without secrets, if they cannot be decrypted: the user must sign in again.
  ///
  /// - Parameter message: the reason, as a sentence without a full stop.
  public func unreadable(_ message: String, at now: Timestamp) -> SavedGrant {
    var rest = self
    rest.standing = .loginRequired(.unreadable, FailureRecord(message: message, at: now))
    (rest.refreshToken, rest.previousRefreshToken, rest.idToken, rest.dpopKey) = (nil, nil, nil, nil)
    return rest
  }
}
