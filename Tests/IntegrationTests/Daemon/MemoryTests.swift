import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("The daemon's memory", .atMost)
struct MemoryTests {
  /// No other process may read the daemon's memory: bit 19 of the effective capabilities (capabilities(7)) is CAP_SYS_PTRACE.
  private static let mayLook: Bool = {
    let status = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)
    let line = status?.split(separator: "\n").first { $0.hasPrefix("CapEff:") }
    return line?.split(separator: "\t").last.flatMap { UInt64($0, radix: 16) }.map { $0 >> 19 & 1 == 1 } ?? false
  }()

  /// The number of occurrences of each secret in the readable memory of the process.
  private static func count(_ secrets: [String], in pid: Int32) throws -> [String: Int] {
    let maps = try String(contentsOfFile: "/proc/\(pid)/maps", encoding: .utf8)
    let memory = try FileHandle(forReadingFrom: URL(fileURLWithPath: "/proc/\(pid)/mem"))
    defer { try? memory.close() }
    var found: [String: Int] = [:]
    for line in maps.split(separator: "\n") {
      let fields = line.split(separator: " ", omittingEmptySubsequences: true)
      let ends = fields[0].split(separator: "-").compactMap { UInt64($0, radix: 16) }
      // A mapped file holds what the file holds, and the kernel's own pages cannot be read.
      guard ends.count == 2, fields[1].hasPrefix("rw"), fields.count == 5 || fields.last?.hasPrefix("[") == true else {
        continue
      }
      try memory.seek(toOffset: ends[0])
      guard let bytes = try? memory.read(upToCount: Int(ends[1] - ends[0])) else { continue }
      for secret in secrets {
        var rest = bytes[...]
        while let range = rest.range(of: Data(secret.utf8)) {
          found[secret, default: 0] += 1
          rest = rest[range.upperBound...]
        }
      }
    }
    return found
  }

  // A sanitizer has a heap of its own, which nothing overwrites, and terabytes to search.
  @Test("of a removed account no token, code or verifier remains in it", .enabled(if: mayLook && slowness == 1))
  func forgotten() async throws {
    let wish = Wish {
      $0.isRelayed = true
      // An eighth of it is how often quiet connections are looked at.
      $0.configuration = "[socket]\nidle_timeout = \"30s\""
    }
    try await Rig.with(wish) { rig in
      let leaks = Leaks()
      // Open connections keep no received data either.
      let quiet = try RawClient(rig.socket)
      try await rig.login()
      for generation in 1...2 as ClosedRange<Int64> {
        let answer = try await quiet.ask(tokenGet(Int(generation)))
        leaks.know(answer["result"]?["access_token"]?.string)
        #expect(try await rig.reject(generation).refreshed)
      }
      leaks.learn(from: try #require(rig.relay).record)
      try await rig.login("bob")
      let kept = try await rig.token("bob").access_token
      #expect(try Self.count([kept], in: try rig.daemon.pid)[kept, default: 0] > 0)
      try await rig.call("account.logout", ["account": "alice"])
      leaks.learn(from: rig.demo.requests.filter { $0.parameters["login_hint"] != "bob" })
      // A callback with a used state gets an error.
      let states = rig.demo.requests.compactMap { $0.parameters["state"] }
      let gone = leaks.all.filter { $0 != kept && !states.contains($0) }
      #expect(gone.count > 10)
      var left: [String: Int] = [:]
      let isClean = await eventually(every: .milliseconds(500)) {
        left = try Self.count(gone, in: rig.daemon.pid)
        return left.isEmpty
      }
      #expect(isClean, "\(left.map { "\($0.key.prefix(6))… \($0.value) times" })")
      // What is in use is found as before.
      #expect(try Self.count([kept], in: try rig.daemon.pid)[kept, default: 0] > 0)
    }
  }
}
