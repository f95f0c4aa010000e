#if DEBUG
  import Glibc
  import Platform
  import SQLiteStore
  import Synchronization

  /// Ends the process where the crash test cannot hit it from outside. `GRANTD_CRASH_AT=applied:7:50`: with SIGKILL, as
  /// a commit comes to that point for the 7th time, 50 ms later: long enough for an answer to get out that should have
  /// waited for the commit. The points are those of ``WritePoint``. A release build has none of it.
  enum CrashPoint {
    static func wanted() -> (@Sendable (WritePoint) -> Void)? {
      guard let text = Environment.own["GRANTD_CRASH_AT"] else { return nil }
      let parts = text.split(separator: ":")
      guard parts.count == 3, let nth = Int(parts[1]), nth > 0,
        let stall = UInt32(parts[2])
      else { fatalError("GRANTD_CRASH_AT is POINT:N:MILLISECONDS, not \(text)") }
      let (name, remaining) = (String(parts[0]), Counter(nth))
      return { point in
        guard point.name == name, remaining.next() == 0 else { return }
        usleep(stall * 1000)
        kill(getpid(), SIGKILL)
      }
    }

    private final class Counter: Sendable {
      private let value: Mutex<Int>

      init(_ value: Int) { self.value = Mutex(value) }

      func next() -> Int {
        value.withLock {
          $0 -= 1
          return $0
        }
      }
    }
  }

  extension WritePoint {
    fileprivate var name: String {
      switch self {
      case .taken: "taken"
      case .applied: "applied"
      case .committed: "committed"
      case .migrated: "migrated"
      case .rebuilding(let step): step.rawValue
      case .rotating(let step): step.rawValue
      }
    }
  }
#endif
