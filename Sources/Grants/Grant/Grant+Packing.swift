public import OAuth

// A grant as two parts: what a store keeps, and what is in memory alone. Of a million grants nearly all are at rest.
extension Grant {
  /// What of a grant at rest is in memory alone.
  public struct Remainder: Sendable {
    fileprivate var rejectedGeneration: Int64?
    fileprivate var stamps: Stamps
    fileprivate var waitsForProvider: Bool
    fileprivate var isUnfinished: Bool
    fileprivate var fellBack: Bool
    fileprivate var isDoubted: Bool
    fileprivate var followsUnanswered: Bool
    fileprivate var refusals: Refusals?
    fileprivate var jitter: Double
    fileprivate var attempts: UInt64
    /// Without their tokens.
    fileprivate var narrowed: [SavedToken.Key: Narrowed]

    /// A token is kept that is not handed out, and that no disk should have.
    public var hasRejectedToken: Bool { rejectedGeneration != nil }

    /// Whether ``Grant/clockStepped(by:)`` would change anything of the grant.
    public func movesWith(_ step: Duration) -> Bool {
      step < .zero || stamps.token || stamps.refreshToken || stamps.intent || !narrowed.isEmpty
    }
  }

  /// Nil: a request is under way, or callers wait for one.
  public var remainder: Remainder? {
    guard case .idle = phase, superseded == nil, wanted.isEmpty else { return nil }
    return Remainder(
      rejectedGeneration: rejectedGeneration, stamps: stamps, waitsForProvider: waitsForProvider,
      isUnfinished: isUnfinished, fellBack: fellBack, isDoubted: isDoubted,
      followsUnanswered: followsUnanswered, refusals: refusals, jitter: jitter, attempts: attempts,
      narrowed: narrowed.mapValues { narrowed in
        var mark = narrowed
        mark.token = nil
        return mark
      })
  }

  /// Its secrets could not be opened: it has none of those that are on disk.
  public var isUnreadable: Bool { saved.isUnreadable }

  /// Every token, also one that was refused.
  public var tokens: [SavedToken] { (token.map { [$0] } ?? []) + narrowed.values.compactMap(\.token) }

  /// The same grant again.
  ///
  /// - Parameter tokens: as ``tokens`` had them.
  public init(saved: SavedGrant, tokens: [SavedToken], intent: RefreshIntent?, remainder: Remainder) {
    self.init(saved: saved, token: tokens.first { !$0.key.isNarrowed }, intent: intent, jitter: remainder.jitter)
    narrowed = remainder.narrowed
    for token in tokens where token.key.isNarrowed { narrowed[token.key, default: Narrowed()].token = token }
    rejectedGeneration = remainder.rejectedGeneration
    stamps = remainder.stamps
    waitsForProvider = remainder.waitsForProvider
    isUnfinished = remainder.isUnfinished
    fellBack = remainder.fellBack
    isDoubted = remainder.isDoubted
    followsUnanswered = remainder.followsUnanswered
    refusals = remainder.refusals
    numbersAttempts(after: remainder.attempts)
  }
}

extension SavedGrant {
  /// Its secrets could not be opened: it has none of those that are on disk.
  public var isUnreadable: Bool {
    if case .loginRequired(.unreadable, _) = standing { true } else { false }
  }

  /// The provider of a grant whose provider cannot be read.
  public static let unreadableProvider: ProviderName = {
    guard let name = ProviderName(rawValue: "unreadable") else { preconditionFailure("it is a name") }
    return name
  }()

  /// What is left of a grant whose secrets cannot be opened: people must sign in again.
  ///
  /// - Parameter message: why not, in a sentence without a full stop.
  public func unreadable(_ message: String, at now: Timestamp) -> SavedGrant {
    var rest = self
    rest.standing = .loginRequired(.unreadable, Failure(message: message, at: now))
    (rest.refreshToken, rest.previousRefreshToken, rest.idToken, rest.dpopKey) = (nil, nil, nil, nil)
    return rest
  }
}
