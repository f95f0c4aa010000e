// A process that uses a store, for tests that end it or compete with it: store-fixture MODE FOLDER KEY.
// For measurements: store-fixture seed, see Seed.

import Broker
import Foundation
import Grants
import OAuth
import SQLiteStore
import Sealing

/// At once: nothing stays in a buffer.
func output(_ line: String) {
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
    output("\(number)")
  }
}

/// A thousand accounts of provider `demo` with tokens of a day, under a key in the folder.
func fill(folder: String) async throws {
  let key = try SealingKey.loadOrCreate(file: folder + "/grantd.key", stateFolder: folder)
  let store = try SQLiteStore.open(folder: folder, key: key)
  guard let provider = ProviderName(rawValue: "demo") else { return }
  var now = timespec()
  clock_gettime(CLOCK_REALTIME, &now)
  let time = Timestamp(milliseconds: Int64(now.tv_sec) * 1000)
  let text = String(repeating: "eyJhbGciOiJSUzI1NiJ9", count: 60)
  var changes: [Change] = []
  for account in (0..<1000).compactMap({ AccountName(rawValue: "a\($0)") }) {
    let grant = SavedGrant(
      account: account, provider: provider, identity: Identity(subject: "1", email: "a@example.com", name: "A"),
      requestedScopes: ["openid"], grantedScopes: ["openid"], refreshToken: Secret("\(account)-\(text)"),
      idToken: Secret(text), generation: 1, createdAt: time, loggedInAt: time)
    let token = SavedToken(
      account: account, accessToken: Secret("\(account)-\(text)"), type: "Bearer", scopes: ["openid"], generation: 1,
      issuedAt: time, expiresAt: time + .seconds(86_400))
    changes += [.putGrant(grant), .putToken(token)]
  }
  try await store.commit(changes)
  await store.close()
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
  output("opened in \(opened - start), loaded in \(clock.now - opened)")
  await store.close()
}

/// Obeys the lines of its input, and answers each with one line.
func serve(_ store: SQLiteStore) async throws {
  var state = StoredState()
  let filler = (store.location as NSString).deletingLastPathComponent + "/filler"
  output("open")
  while let words = readLine()?.split(separator: " ").map(String.init), let command = words.first {
    do throws(StoreError) {
      switch command {
      case "put":
        let (name, value) = (words[1], String(repeating: "x", count: Int(words[2]) ?? 0))
        try await store.commit([.putValue(name, value)])
        state.values[name] = value
        output("ok")
      case "get":
        let values = try await store.load().values.sorted { $0.key < $1.key }
        output(values.map { "\($0.key)=\($0.value.count)" }.joined(separator: " "))
      case "examine":
        let notices = try await store.examine()
        output((["ok"] + notices).joined(separator: " "))
      case "rebuild":
        try await store.rebuild(from: state)
        output("ok")
      case "rotate": output(await rotate(store))
      case "fill": output(fill(filler) ? "ok" : "the disk does not get full")
      case "free":
        unlink(filler)
        output("ok")
      case "limit": output(limitFiles(to: Int(words[1])) ? "ok" : "no limit")
      case "files": output(files(beside: store.location))
      case "readonly": output(makeReadOnly(beside: store.location) ? "ok" : "not done")
      case "writable": output(umount((store.location as NSString).deletingLastPathComponent) == 0 ? "ok" : "not done")
      case "quit":
        return await store.close()
      case "die":
        unlink(filler)
        kill(getpid(), SIGKILL)
      default: output("what?")
      }
    } catch {
      output("\(error)".prefix { $0 != "(" } + ": \(error.message)")
    }
  }
  await store.close()
}

func rotate(_ store: SQLiteStore) async -> String {
  do throws(KeyRotationError) {
    let rotation = try await store.rotateKey()
    return rotation.remains.isEmpty ? "ok" : rotation.remains.joined(separator: "; ")
  } catch {
    return "\(error)"
  }
}

/// The key in a file beside the state folder, not in it.
func fileKey(_ folder: String) throws(StoreError) -> SealingKey {
  let file = (folder as NSString).deletingLastPathComponent + "/key/grantd.key"
  return try SealingKey.loadOrCreate(file: file, stateFolder: folder)
}

/// Takes all of the disk's room, as long as that is not more than a test's disk has.
func fill(_ file: String) -> Bool {
  let descriptor = open(file, O_WRONLY | O_CREAT | O_APPEND, 0o600)
  defer { close(descriptor) }
  for size in [4096, 1] {
    let block = [UInt8](repeating: 0, count: size)
    for _ in 0..<(16 << 20) / 4096 {
      if write(descriptor, block, size) == size { continue }
      if errno == ENOSPC { break }
      return false
    }
  }
  return true
}

func files(beside file: String) -> String {
  let names = try? FileManager.default.contentsOfDirectory(atPath: (file as NSString).deletingLastPathComponent)
  return (names ?? []).sorted().joined(separator: " ")
}

/// A second mount of the folder over itself: what is open stays as it was, and what is opened now cannot be written.
func makeReadOnly(beside file: String) -> Bool {
  let folder = (file as NSString).deletingLastPathComponent
  let (readOnly, remount, bind) = (UInt(1), UInt(32), UInt(4096))
  return mount(folder, folder, nil, bind, nil) == 0
    && mount(nil, folder, nil, bind | remount | readOnly, nil) == 0
}

/// A write beyond it is an input/output error. Nil: no limit.
func limitFiles(to bytes: Int?) -> Bool {
  var limit = rlimit()
  guard getrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit) == 0 else { return false }
  limit.rlim_cur = bytes.map(rlim_t.init) ?? limit.rlim_max
  return setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit) == 0
}

/// A store whose process ends at this point.
func store(_ folder: String, _ key: SealingKey, dyingAt fatal: WritePoint) throws(StoreError) -> SQLiteStore {
  try SQLiteStore.open(folder: folder, key: key, pageLimit: nil) { point in
    if point == fatal { kill(getpid(), SIGKILL) }
  }
}

let arguments = CommandLine.arguments
guard arguments.count == 4 || arguments.dropFirst().first == "seed" else { exit(64) }
do {
  if arguments[1] == "seed" {
    guard let seed = Seed(Array(arguments.dropFirst(2))) else {
      output(Seed.help)
      exit(64)
    }
    try await seed.run()
    exit(0)
  }
  let key = try SealingKey(Data(arguments[3].utf8), source: "argument")
  switch arguments[1] {
  case "commit":
    try await commit(to: SQLiteStore.open(folder: arguments[2], key: key))
  case "measure":
    try await measure(arguments[2], key)
  case "fill":
    try await fill(folder: arguments[2])
  case "own":
    let store = try SQLiteStore.open(folder: arguments[2], key: key)
    output("open")
    _ = readLine()
    await store.close()
  case "serve", "serve-key-file":
    // What exceeds a limit is an error, not the end.
    signal(SIGXFSZ, SIG_IGN)
    let own = arguments[1] == "serve" ? key : try fileKey(arguments[2])
    try await serve(SQLiteStore.open(folder: arguments[2], key: own))
  case "die-migrating":
    _ = try store(arguments[2], key, dyingAt: .migrated(to: 2))
  case "die-applied", "die-committed":
    let store = try store(arguments[2], key, dyingAt: arguments[1] == "die-applied" ? .applied : .committed)
    try await store.commit([.putValue("one", "1"), .putValue("two", "2")])
  case let mode where mode.hasPrefix("die-rebuilding-"):
    guard let step = RebuildStep(rawValue: String(mode.dropFirst("die-rebuilding-".count))) else { exit(64) }
    let store = try store(arguments[2], key, dyingAt: .rebuilding(step))
    try await store.commit([.putValue("old", "1")])
    var state = StoredState()
    state.values = ["new": "1"]
    try await store.rebuild(from: state)
  case let mode where mode.hasPrefix("die-rotating-"):
    guard let step = RotationStep(rawValue: String(mode.dropFirst("die-rotating-".count))) else { exit(64) }
    let store = try store(arguments[2], try fileKey(arguments[2]), dyingAt: .rotating(step))
    output(await rotate(store))
  default:
    exit(64)
  }
} catch let error as StoreError {
  output(error.message)
  exit(1)
}
