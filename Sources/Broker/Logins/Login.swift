import BrokerAPI
import Grants
import OAuth

/// A login in memory: what it is doing.
struct Login {
  var saved: SavedLogin
  var phase: Phase
  /// Started in this run of the broker, by its clock.
  var isOfThisRun = false

  enum Phase {
    /// A person has to sign in.
    case pending
    /// The code is being traded; the state is spent.
    case exchanging
    case ended(Outcome, at: Timestamp)
  }

  enum Outcome {
    case completed(AccountName)
    /// The code itself is what it was for.
    case code(Secret)
    case failed(RPCError)
  }

  var isPending: Bool {
    if case .pending = phase { true } else { false }
  }

  var endedAt: Timestamp? {
    if case .ended(_, let at) = phase { at } else { nil }
  }
}

extension Login {
  /// A login of this run keeps the time that it has.
  mutating func clockStepped(by step: Duration) {
    if isOfThisRun {
      saved.startedAt = saved.startedAt + step
      saved.expiresAt = saved.expiresAt + step
    }
    if case .ended(let outcome, let at) = phase { phase = .ended(outcome, at: at + step) }
  }
}
