public import Grants
public import OAuth

// The values of a store that several brokers share.

/// Names one commit, and the state that it left of the accounts whose grants or tokens it changed: random bytes that its
/// writer chose.
public struct Revision: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt64

  public init(rawValue: UInt64) { self.rawValue = rawValue }

  public static func random() -> Revision { Revision(rawValue: .random(in: .min ... .max)) }
}

/// One of the brokers that share a store.
public struct Node: Hashable, Sendable {
  /// Stays the same for one state folder.
  public let id: String
  /// Another one at each start.
  public let run: String

  public init(id: String, run: String) {
    self.id = id
    self.run = run
  }
}

/// The right to refresh one account, which one broker has at a time.
public struct Lease: Sendable, Equatable {
  public let account: AccountName
  /// Increases with each lease of the account. A commit that expects an older one is refused: a broker that was stopped
  /// for longer than its lease cannot overwrite a later write of another.
  public let fence: UInt64

  public init(account: AccountName, fence: UInt64) {
    self.account = account
    self.fence = fence
  }
}

public enum Leasing: Sendable, Equatable {
  /// With the intent as it is on disk now.
  case granted(Lease, RefreshIntent)
  case held(LeaseHolder)
}

/// Another broker that has an account's lease.
public struct LeaseHolder: Sendable, Equatable {
  /// The machine's name.
  public let name: String
  /// When this broker may get the lease at the latest, unless the holder prolongs it.
  public let remaining: Duration

  public init(name: String, remaining: Duration) {
    self.name = name
    self.remaining = remaining
  }
}

/// When a lease may go from a holder that has not given it back to another broker. The holder's request may be on its way
/// or answered, and then its refresh token is spent. If another broker took the lease over and gave it back, the wait for
/// the first holder's request continues.
public struct Takeover: Sendable, Equatable {
  /// - `none`: at the lease's end, as the request can be repeated.
  /// - `grace`: at the lease's end if a request can be sent from then on within the grace, which begins when the first
  ///   request could be sent; otherwise as `strict`.
  /// - `strict`: ``delay`` after the lease was last granted or prolonged, or ``pause`` after the end of the holder's run.
  public var rotation: Rotation
  /// At once: an administrator demands it.
  public var isForced: Bool

  public init(_ rotation: Rotation, isForced: Bool = false) {
    self.rotation = rotation
    self.isForced = isForced
  }

  public static let delay = Duration.seconds(600)
  /// After the end of a run: the provider may have its request in a queue. If a second one came first, the queued one
  /// would end the grant.
  public static let pause = Duration.seconds(2)
  /// How long after the grant of a lease its request may be sent.
  public static let sendingTime = Limit.sendingTime
}

/// A condition of a commit.
public enum Expectation: Sendable, Equatable {
  /// The lease is still the latest of its account.
  case lease(Lease)
  /// The account's revision on disk; nil: there is no such account.
  case revision(AccountName, Revision?)
  /// The login is on disk: no other broker has taken it.
  case login(LoginID)
  /// The revocation is on disk, and no other broker's claim to it lasts.
  case revocation(String)
  /// No registration has this name.
  case noRegistration(ProviderName)
}

/// Changes that other brokers made: one kind, and the names.
public enum ChangesElsewhere: Sendable, Equatable {
  /// Their grants, tokens or leases.
  case accounts(Set<AccountName>)
  case logins(Set<LoginID>)
  case revocations(Set<String>)
  case registrations(Set<ProviderName>)
  /// The database is another copy: see ``Store/isOtherCopy``. It precedes all changes that are read from the copy.
  case otherCopy
}

/// Which pending logins are looked for.
public enum LoginSearch: Sendable, Equatable {
  case id(LoginID)
  /// By the `state` of a callback. The store searches for its hash under a key that the brokers share, so the search
  /// time reveals nothing.
  case state(Secret)
  /// All of a provider, whose callbacks bear no state, or bear it where no server sees it.
  case provider(ProviderName)
}
