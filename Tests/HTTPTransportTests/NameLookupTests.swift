import Broker
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import HTTPTransport

/// A name service of a test: names of `slow` hang until it ends.
private final class ScriptedNames: Sendable {
  private struct State {
    var asked: [String] = []
    var answers: [String: [String]] = [:]
    var hangs: Set<String> = []
  }

  private let state = Mutex(State())

  init(_ answers: [String: [String]], hanging: String...) {
    state.withLock { $0 = State(answers: answers, hangs: Set(hanging)) }
  }

  var asked: [String] { state.withLock { $0.asked } }

  func answer(_ host: String, _ addresses: [String]) {
    state.withLock { state in
      state.answers[host] = addresses
      state.hangs.remove(host)
    }
  }

  var resolver: NameLookups.Resolver {
    { [self] host in
      state.withLock { $0.asked.append(host) }
      while state.withLock({ $0.hangs.contains(host) }) { usleep(5000) }
      return state.withLock { $0.answers[host] }.map { .success($0) } ?? .failure(.init(message: "no such name"))
    }
  }

  func end() { state.withLock { $0.hangs = [] } }
}

@Suite("Names of providers")
struct NameLookupTests {
  private func message(_ error: TransportError) -> String { error.message }

  private func ask(_ lookups: NameLookups, _ host: String) async -> Result<[String], TransportError> {
    do throws(TransportError) {
      return .success(try await lookups.addresses(of: host))
    } catch {
      return .failure(error)
    }
  }

  @Test("A name that hangs holds up no other, has one thread for all who ask, and each is answered in time")
  func hanging() async throws {
    let names = ScriptedNames(["fast.test": ["192.0.2.1"]], hanging: "slow.test")
    defer { names.end() }
    let lookups = NameLookups(timeout: .seconds(8), resolve: names.resolver)
    let waiting = (0..<5).map { _ in Task { await ask(lookups, "slow.test") } }
    #expect(await eventually { lookups.count == 1 })
    // The other one hangs until this test lets it go: held up by it, this one would have no answer.
    #expect(await ask(lookups, "fast.test") == .success(["192.0.2.1"]))
    let failure = TransportError(
      .notSent, "no connection to slow.test: the name server did not answer in 8 s", cause: .nameLookup)
    for task in waiting { #expect(await task.value == .failure(failure)) }
    // Its thread hangs still; who asks now waits for that one.
    #expect(await ask(lookups, "slow.test") == .failure(failure))
    #expect(names.asked.filter { $0 == "slow.test" }.count == 1 && lookups.count == 1)
    names.answer("slow.test", ["192.0.2.2"])
    #expect(await eventually { lookups.count == 0 })
    #expect(await ask(lookups, "slow.test") == .success(["192.0.2.2"]))
    #expect(names.asked.filter { $0 == "slow.test" }.count == 1)
  }

  @Test("Lookups are limited; above the limit only the hosts file is read, without a wait")
  func bounded() async throws {
    let names = ScriptedNames([:], hanging: "a.test", "b.test")
    defer { names.end() }
    let lookups = NameLookups(
      most: 2, timeout: .seconds(30),
      hosts: { $0 == "own.test" ? .success(["192.0.2.7"]) : .failure(.init(message: "")) },
      resolve: names.resolver)
    let waiting = ["a.test", "b.test"].map { name in Task { await ask(lookups, name) } }
    #expect(await eventually { lookups.count == 2 })
    #expect(await ask(lookups, "own.test") == .success(["192.0.2.7"]))
    let refused = TransportError(
      .notSent, "no connection to c.test: 2 other names are being looked up: does the name server answer?",
      cause: .nameLookup)
    #expect(await ask(lookups, "c.test") == .failure(refused))
    // Who hangs up does not wait to the end.
    for task in waiting { task.cancel() }
    for task in waiting { #expect(await task.value != .success([])) }
    #expect(lookups.count == 2)
  }

  @Test("If no thread can be started, the caller is informed at once, and the next one tries again")
  func withoutThread() async {
    let failures = Mutex(2)
    let names = ScriptedNames(["a.test": ["192.0.2.1"]])
    let lookups = NameLookups(
      timeout: .seconds(30), hosts: { $0 == "own.test" ? .success(["192.0.2.7"]) : .failure(.init(message: "")) },
      spawn: { work in
        let fails = failures.withLock { count in
          count -= 1
          return count >= 0
        }
        if !fails { work() }
        return fails ? EAGAIN : 0
      }, resolve: names.resolver)
    let failure = TransportError(
      .notSent,
      "no connection to a.test: no thread for its lookup can be started (Resource temporarily unavailable)",
      cause: .nameLookup)
    #expect(await ask(lookups, "a.test") == .failure(failure))
    #expect(await ask(lookups, "own.test") == .success(["192.0.2.7"]))
    #expect(await ask(lookups, "a.test") == .success(["192.0.2.1"]))
    #expect(lookups.count == 0)
  }

  @Test("Addresses and failures are kept for a while")
  func kept() async throws {
    let names = ScriptedNames(["known.test": ["192.0.2.1"]])
    let lookups = NameLookups(resolve: names.resolver)
    let began = ContinuousClock.now
    for _ in 0..<3 {
      #expect(await ask(lookups, "known.test") == .success(["192.0.2.1"]))
      guard case .failure(let error) = await ask(lookups, "other.test") else {
        Issue.record("a name that there is not")
        return
      }
      #expect(error.message == "no connection to other.test: no such name" && error.kind == .notSent)
    }
    let asked = names.asked.sorted()
    // A busy machine may need longer for the three than a failure is kept.
    let isInTime = ContinuousClock.now - began < NameLookups.failureKept
    #expect(asked.filter { $0 == "known.test" } == ["known.test"])
    #expect(!isInTime || asked == ["known.test", "other.test"])
    // A failure for a shorter time: a repaired name server is used soon.
    names.answer("other.test", ["192.0.2.9"])
    #expect(await eventually { await ask(lookups, "other.test") == .success(["192.0.2.9"]) })
  }

  @Test("The address that worked is tried first, as long as the name has it, and few are tried at all")
  func preferred() async throws {
    let many = (1...9).map { "192.0.2.\($0)" }
    let names = ScriptedNames(["a.test": many])
    let lookups = NameLookups(resolve: names.resolver)
    #expect(await ask(lookups, "a.test") == .success(Array(many.prefix(4))))
    lookups.works("192.0.2.7", of: "a.test")
    #expect(await ask(lookups, "a.test") == .success(["192.0.2.7", "192.0.2.1", "192.0.2.2", "192.0.2.3"]))
    lookups.works("198.51.100.1", of: "a.test")
    #expect(await ask(lookups, "a.test") == .success(Array(many.prefix(4))))
  }

  @Test("The system's resolver knows this machine, and not what there is not")
  func system() throws {
    let own = try SystemResolver.addresses(of: "localhost").get()
    #expect(own.contains("127.0.0.1") || own.contains("::1"))
    #expect(throws: NameLookups.Failure.self) { try SystemResolver.addresses(of: "no such name").get() }
  }

  @Test("The hosts file is read as hosts(5) says")
  func hosts() throws {
    let file = FileManager.default.temporaryDirectory.appending(path: "hosts-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: file) }
    try Data(
      """
      # 192.0.2.1 id.test
      192.0.2.2\tID.test other.test # 192.0.2.3 no.test
      2001:db8::1 id.test
      nonsense id.test

      """.utf8
    ).write(to: file)
    let path = file.path(percentEncoded: false)
    #expect(HostsFile.addresses(of: "id.TEST", in: path) == .success(["192.0.2.2", "2001:db8::1"]))
    #expect(HostsFile.addresses(of: "other.test", in: path) == .success(["192.0.2.2"]))
    for name in ["no.test", "192.0.2.2", "192.0.2.3"] {
      #expect(throws: NameLookups.Failure.self) { try HostsFile.addresses(of: name, in: path).get() }
    }
    #expect(throws: NameLookups.Failure.self) { try HostsFile.addresses(of: "id.test", in: path + ".none").get() }
  }
}

extension NameLookups {
  /// A name service that knows only these names.
  convenience init(_ answers: [String: [String]]) {
    self.init(resolve: { host in answers[host].map { .success($0) } ?? .failure(.init(message: "no such name")) })
  }
}
