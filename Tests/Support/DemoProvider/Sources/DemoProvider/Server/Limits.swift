/// Every bound of the server, in one place.
enum Limits {
  static let requestBytes = 64 * 1024
  static let backlog: Int32 = 1024
  static let codes = 10_000
  static let grants = 20_000
  static let accessTokens = 100_000
  /// Rotated refresh tokens are remembered, to tell reuse from rubbish; beyond this the oldest are forgotten.
  static let refreshTokens = 100_000
  static let devices = 1000
  /// What `slow_down` adds to the interval (RFC 8628 §3.5). Seconds.
  static let slowDownStep = 5.0
  static let pushedRequests = 1000
  static let registrations = 1000
  static let serviceAccounts = 100
  static let clientKeys = 16
  /// Identifiers of assertions and proofs that are remembered, so that none is taken twice.
  static let identifiers = 100_000
  static let nonces = 1000
  static let vmsTickets = 1000
  /// Of one user, and of all.
  static let vmsSessions = 100
  static let vmsTokens = 10_000
  static let zephrTickets = 1000
  static let zephrUsers = 1000
  static let zephrSessions = 10_000
  /// The newest requests, for tests that ask what was sent.
  static let requestLog = 500
  static let revocations = 10_000
  static let faults = 256
  static let faultSeconds = 1e9
  /// How soon a delayed answer learns that it may go.
  static let delayStep: Duration = .milliseconds(10)
  static let statusCodes = 200...599
  static let signingKeys = 8
  static let codeLifetime = 60.0
  /// A person has to choose a session within it.
  static let vmsCodeLifetime = 600.0
  /// How far ahead a client assertion may expire, and how far off a clock may be. Seconds.
  static let assertionLifetime = 60.0
  static let clockTolerance = 5.0
  /// How far ahead an assertion that is itself the grant may expire. Seconds.
  static let grantAssertionLifetime = 3600.0
  /// How old or early a DPoP proof may be. Seconds.
  static let proofAge = 60.0
  /// How long a logout token is good, and how long the client may take to answer it.
  static let logoutTokenLifetime = 120
  static let logoutWait: Duration = .seconds(45)
  static let logoutAnswerBytes = 64 * 1024
  static let hugeBodyBytes = 0...(256 * 1024 * 1024)
  static let slowBodyRate = 1...1_000_000
  /// A slow body ends within this, whatever its rate.
  static let slowBodyDuration: Duration = .seconds(60)
  static let slowBodyStep: Duration = .milliseconds(50)
  static let writeChunk = 64 * 1024
}

/// A dictionary that forgets its oldest entry when it is full. Entries are never removed otherwise.
struct BoundedMap<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  private var entries: [Key: Value] = [:]
  private var order: [Key] = []
  private var oldest = 0
  private let capacity: Int

  init(capacity: Int) {
    self.capacity = capacity
  }

  var count: Int { entries.count }
  var values: Dictionary<Key, Value>.Values { entries.values }
  var keys: Dictionary<Key, Value>.Keys { entries.keys }

  /// The value, or nil where it was never inserted or is forgotten.
  subscript(key: Key) -> Value? {
    entries[key]
  }

  mutating func insert(_ value: Value, for key: Key) {
    guard entries.updateValue(value, forKey: key) == nil else { return }
    order.append(key)
    guard entries.count > capacity else { return }
    entries[order[oldest]] = nil
    oldest += 1
    if oldest >= 1024, oldest * 2 > order.count {
      order.removeFirst(oldest)
      oldest = 0
    }
  }

  /// Oldest first.
  var entriesByAge: [(key: Key, value: Value)] {
    order[oldest...].compactMap { key in entries[key].map { (key, $0) } }
  }

  /// Changes the value in place where there is one.
  mutating func update(_ key: Key, _ change: (inout Value) -> Void) {
    guard let index = entries.index(forKey: key) else { return }
    change(&entries.values[index])
  }
}
