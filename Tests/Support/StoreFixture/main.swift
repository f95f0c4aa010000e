// A process that uses a store, for tests that end it or compete with it: store-fixture MODE FOLDER KEY

import Broker
import Foundation
import Grants
import OAuth
import SQLiteStore

/// At once: nothing stays in a buffer.
func say(_ line: String) {
  FileHandle.standardOutput.write(Data("\(line)\n".utf8))
}

/// Commits numbers, and prints each once it is committed.
func commit(to store: SQLiteStore) async throws {
  var number: Int64 = 0
  while true {
    number += 1
    guard let account = AccountName(rawValue: "a\(number)"), let provider = ProviderName(rawValue: "p") else { return }
    let now = Timestamp(milliseconds: number)
    let grant = SavedGrant(
      account: account, provider: provider, identity: nil, requestedScopes: [], grantedScopes: [],
      refreshToken: Secret("refresh-\(number)"), generation: number, createdAt: now, loggedInAt: now)
    let token = SavedToken(
      account: account, accessToken: Secret("access-\(number)"), type: "Bearer", scopes: [], generation: number,
      issuedAt: now, expiresAt: nil)
    try await store.commit([.putGrant(grant), .putToken(token), .putValue("last", "\(number)")])
    say("\(number)")
  }
}

/// Prints how long a store with a thousand accounts takes to open and to load.
func measure(_ folder: String, _ key: SealingKey) async throws {
  let filled = try SQLiteStore.open(folder: folder, key: key)
  let text = String(repeating: "eyJhbGciOiJSUzI1NiJ9", count: 60)
  guard let provider = ProviderName(rawValue: "p") else { return }
  let now = Timestamp(milliseconds: 1)
  for account in (1...1000).compactMap({ AccountName(rawValue: "a\($0)") }) {
    let grant = SavedGrant(
      account: account, provider: provider, identity: Identity(subject: "1", email: "a@example.com", name: "A"),
      requestedScopes: ["openid", "email"], grantedScopes: ["openid", "email"], refreshToken: Secret(text),
      previousRefreshToken: Secret(text), idToken: Secret(text), generation: 1, createdAt: now, loggedInAt: now)
    let token = SavedToken(
      account: account, accessToken: Secret(text), type: "Bearer", scopes: ["openid", "email"], generation: 1,
      issuedAt: now, expiresAt: now)
    try await filled.commit([.putGrant(grant), .putToken(token)])
  }
  await filled.close()
  let clock = ContinuousClock()
  let start = clock.now
  let store = try SQLiteStore.open(folder: folder, key: key)
  let opened = clock.now
  _ = try await store.load()
  say("opened in \(opened - start), loaded in \(clock.now - opened)")
  await store.close()
}

let arguments = CommandLine.arguments
guard arguments.count == 4 else { exit(64) }
do {
  let key = try SealingKey(Data(arguments[3].utf8), source: "argument")
  switch arguments[1] {
  case "commit":
    try await commit(to: SQLiteStore.open(folder: arguments[2], key: key))
  case "measure":
    try await measure(arguments[2], key)
  case "own":
    let store = try SQLiteStore.open(folder: arguments[2], key: key)
    say("open")
    _ = readLine()
    await store.close()
  case "die-applied", "die-committed":
    let fatal: WritePoint = arguments[1] == "die-applied" ? .applied : .committed
    let store = try SQLiteStore.open(folder: arguments[2], key: key, pageLimit: nil) { point in
      if point == fatal { kill(getpid(), SIGKILL) }
    }
    try await store.commit([.putValue("one", "1"), .putValue("two", "2")])
  default:
    exit(64)
  }
} catch let error as StoreError {
  say(error.message)
  exit(1)
}
