import Broker
import Foundation
import Grants
import OAuth
import SQLiteStore
import Sealing

/// Many accounts for measurements: `store-fixture seed --folder F --accounts N …`. Each has an access token, a refresh
/// token and an ID token. The key is in the folder, where grantd looks for it. Accounts that are there are replaced.
struct Seed {
  static let help = """
    store-fixture seed --folder FOLDER --accounts NUMBER [--OPTION VALUE]…
      --every NUMBER       write only every so many-th account: user0000020, user0000040, … with 20 (1)
      --provider NAME      whose they are (fast)
      --token-bytes NUMBER the length of each token (300)
      --issued-ago SECONDS when the access tokens were issued (0)
      --expires-in SECONDS when they end (86400)
      --due-in SECONDS     instead of --issued-ago: when the first is due for a refresh by the default policy, without
                           jitter; the lifetime is that of --expires-in
      --spread SECONDS     times move later by up to so much, evenly over the accounts (0)
    """
  /// Accounts in one commit, and commits that wait for the disk.
  static let group = 500
  static let waiting = 4

  var folder = ""
  var accounts = 0
  var every = 1
  var provider = "fast"
  var tokenBytes = 300
  var issuedAgo = 0.0
  var expiresIn = 86_400.0
  var dueIn: Double?
  var spread = 0.0

  /// Nil: see ``help``.
  init?(_ arguments: [String]) {
    var rest = arguments[...]
    while let name = rest.popFirst() {
      guard let value = rest.popFirst(), take(name, value) else { return nil }
    }
    guard !folder.isEmpty, accounts > 0, every > 0 else { return nil }
  }

  private mutating func take(_ name: String, _ value: String) -> Bool {
    let (whole, number) = (Int(value), Double(value))
    switch name {
    case "--folder": folder = value
    case "--provider": provider = value
    case "--accounts": accounts = whole ?? 0
    case "--every": every = whole ?? 0
    case "--token-bytes": tokenBytes = whole ?? tokenBytes
    case "--issued-ago": issuedAgo = number ?? issuedAgo
    case "--expires-in": expiresIn = number ?? expiresIn
    case "--due-in": dueIn = number
    case "--spread": spread = number ?? spread
    default: return false
    }
    return number != nil || name == "--folder" || name == "--provider"
  }

  func run() async throws {
    let store = try SQLiteStore.open(
      folder: folder, key: try SealingKey.loadOrCreate(file: folder + "/grantd.key", stateFolder: folder))
    let numbers = Array(stride(from: every, through: accounts, by: every))
    let start = now()
    // No refresh token of an earlier run appears again: the provider counts those that it saw before.
    let run = String(start.milliseconds, radix: 36)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for (index, first) in stride(from: 0, to: numbers.count, by: Self.group).enumerated() {
        let end = min(first + Self.group, numbers.count)
        let changes = (first..<end).flatMap { self.changes(numbers[$0], $0, of: numbers.count, at: start, run) }
        if index >= Self.waiting { try await group.next() }
        group.addTask { try await store.commit(changes) }
      }
      try await group.waitForAll()
    }
    await store.close()
    output("\(numbers.count) accounts")
  }

  /// The account with this number, which is the `index`-th of `count`.
  private func changes(_ number: Int, _ index: Int, of count: Int, at start: Timestamp, _ run: String) -> [Change] {
    let digits = String(number)
    let padded = String(repeating: "0", count: max(0, 7 - digits.count)) + digits
    guard let account = AccountName(rawValue: "user\(padded)"), let provider = ProviderName(rawValue: provider) else {
      return []
    }
    // A prime step: neighbours by name are not neighbours in time.
    let place = Double(index * 1_000_003 % count) / Double(count)
    let (issued, expires) = times(at: start, place)
    let scopes = ["openid", "profile", "offline_access"]
    let grant = SavedGrant(
      account: account, provider: provider,
      identity: Identity(subject: "subject-\(padded)", email: "\(account)@example.com"), requestedScopes: scopes,
      grantedScopes: scopes, refreshToken: token("refresh", padded, run), refreshTokenIssuedAt: issued,
      idToken: token("id", padded, run), generation: 1, createdAt: issued, loggedInAt: issued)
    let access = SavedToken(
      account: account, accessToken: token("access", padded, run), type: "Bearer", scopes: scopes, generation: 1,
      issuedAt: issued, expiresAt: expires)
    return [.putGrant(grant), .putToken(access)]
  }

  private func times(at start: Timestamp, _ place: Double) -> (issued: Timestamp, expires: Timestamp) {
    func after(_ seconds: Double) -> Timestamp { start + .milliseconds(Int64((seconds + place * spread) * 1000)) }
    guard let dueIn else { return (after(-issuedAgo), after(expiresIn)) }
    let share = RefreshPolicy().share
    return (after(dueIn - expiresIn * share), after(dueIn + expiresIn * (1 - share)))
  }

  private func token(_ kind: String, _ number: String, _ run: String) -> Secret {
    let name = "\(kind)-\(run)-\(number)-"
    return Secret(name + String(repeating: "x", count: max(0, tokenBytes - name.utf8.count)))
  }

  private func now() -> Timestamp {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    return Timestamp(milliseconds: Int64(now.tv_sec) * 1000 + Int64(now.tv_nsec) / 1_000_000)
  }
}
