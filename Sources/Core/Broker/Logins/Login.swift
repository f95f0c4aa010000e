import BrokerAPI
import Grants
import OAuth
import Principals

/// A login in memory: its current step.
struct Login {
  var saved: SavedLogin
  var phase: Phase
  /// Started in this run of the broker, by its clock.
  var isOfThisRun = false
  /// The caller that owns the pending login; for an earlier run, the owner of the user id.
  let holder: Holder
  /// The user of this login, if the provider named one. The account may know the user from an earlier login.
  var identity: Identity?
  /// The fingerprint of the callback's address that was taken for it: a browser may show that page again. Only in memory.
  var answer: String?

  /// The program that started it, for the page after the sign-in. Only in memory.
  var program: String?

  /// The request that began it, for others that join it. Only in memory.
  var beginning: LoginStarting?

  /// The last failure of a device poll, reported if the login is not completed in time. Only in memory.
  var lastPollFailure: String?

  init(saved: SavedLogin, phase: Phase, isOfThisRun: Bool = false, holder: Holder) {
    self.saved = saved
    self.phase = phase
    self.isOfThisRun = isOfThisRun
    self.holder = holder
  }

  enum Phase {
    /// A person has to sign in, or to do what ``SavedLogin/action`` says.
    case pending
    /// The code is being traded; the state is spent.
    case exchanging
    /// The tokens are in memory until the disk takes them.
    case unsaved(StoreError)
    case completed(AccountName, at: Timestamp)
    /// The code itself is the login's result.
    case codeIssued(Secret, at: Timestamp)
    case failed(RPCError, at: Timestamp)
  }

  var isPending: Bool {
    if case .pending = phase { true } else { false }
  }

  /// Why its tokens are only in memory; nil: they are not.
  var storeFailure: StoreError? {
    if case .unsaved(let error) = phase { error } else { nil }
  }

  var endedAt: Timestamp? {
    switch phase {
    case .pending, .exchanging, .unsaved: nil
    case .completed(_, let at), .codeIssued(_, let at), .failed(_, let at): at
    }
  }
}

extension Login {
  /// A login of this run keeps the time that it has.
  mutating func clockStepped(by step: Duration) {
    if isOfThisRun {
      saved.startedAt = saved.startedAt + step
      saved.expiresAt = saved.expiresAt + step
    }
    switch phase {
    case .pending, .exchanging, .unsaved: break
    case .completed(let account, let at): phase = .completed(account, at: at + step)
    case .codeIssued(let code, let at): phase = .codeIssued(code, at: at + step)
    case .failed(let error, let at): phase = .failed(error, at: at + step)
    }
  }
}
