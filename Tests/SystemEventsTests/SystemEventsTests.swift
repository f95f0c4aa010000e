import Foundation
import Synchronization
import SystemEvents
import Testing

@Suite("The machine's events", .serialized, .timeLimit(.minutes(5)))
struct SystemEventsTests {
  private static let still = ClockSample(wall: .seconds(1), monotonic: .seconds(1), boottime: .seconds(1))

  @Test("end with close, and leave no descriptor and no thread")
  func closed() async throws {
    func count(_ folder: String) throws -> Int { try FileManager.default.contentsOfDirectory(atPath: folder).count }
    func openAndClose() async {
      let system = SystemEvents(reading: { Self.still })
      system.close()
      system.close()
      for await _ in system.events {}
    }
    await openAndClose()
    let before = try count("/proc/self/fd")
    for _ in 0..<50 { await openAndClose() }
    // Other tests' descriptors come and go.
    #expect(try count("/proc/self/fd") < before + 25)
  }

  @Test("end without a reader")
  func letGo() async {
    var system: SystemEvents? = SystemEvents(reading: { Self.still })
    let events = system?.events
    system = nil
    if let events { for await _ in events {} }
  }

  /// Whether a process may have a network of its own here.
  private static let prefix: [String]? = {
    [["unshare", "--net"], ["unshare", "--net", "--user", "--map-root-user"]].first { prefix in
      run(prefix + ["ip", "link", "add", "try0", "type", "veth"]) == 0
    }
  }()

  private static func run(_ words: [String]) -> Int32 {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = words
    process.standardInput = FileHandle.nullDevice
    process.standardOutput = FileHandle.nullDevice
    process.standardError = FileHandle.nullDevice
    guard (try? process.run()) != nil else { return -1 }
    process.waitUntilExit()
    return process.terminationStatus
  }

  @Test(
    "report new links, addresses and default routes, and not existing or removed ones",
    .enabled(if: prefix != nil, "a network of its own, and ip with veth links, are not to be had here"))
  func network() throws {
    let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    let program = (tests as NSString).deletingLastPathComponent + "/events-fixture"
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = (Self.prefix ?? []) + [program]
    let (input, output) = (Pipe(), Pipe())
    process.standardInput = input
    process.standardOutput = output
    process.standardError = FileHandle.nullDevice
    try process.run()
    defer { process.terminate() }
    func line() throws -> String {
      var line = Data()
      while let byte = try output.fileHandleForReading.read(upToCount: 1), !byte.isEmpty, byte != Data("\n".utf8) {
        line += byte
      }
      return String(decoding: line, as: UTF8.self)
    }
    /// What follows, in any order.
    func run(_ command: String, brings events: [String]) throws {
      try input.fileHandleForWriting.write(contentsOf: Data("\(command)\n".utf8))
      let lines = try (["status 0"] + events).map { _ in try line() }
      #expect(lines.sorted() == (["status 0"] + events).sorted(), "\(command)")
    }
    #expect(try line() == "ready")
    try run("ip link add eth9 type veth peer name eth8 && ip link set lo up && ip link set eth8 up", brings: [])
    try run("ip link set eth9 up", brings: ["networkUp"])
    try run("ip addr add 192.0.2.7/24 dev eth9", brings: ["networkUp"])
    try run("ip route add default via 192.0.2.1", brings: ["networkUp"])
    // None of these; an event of theirs would be in the place of the next one's status.
    try run("ip addr add 127.0.0.9/8 dev lo; ip route add 198.51.100.0/24 via 192.0.2.1; sleep 0.6", brings: [])
    try run("ip addr change 192.0.2.7/24 dev eth9 valid_lft 1000 preferred_lft 1000; sleep 0.6", brings: [])
    try run("ip link set eth9 down; sleep 0.6", brings: [])
    try run("ip link set eth9 up", brings: ["networkUp"])
    try input.fileHandleForWriting.close()
    #expect(try line() == "closed")
    process.waitUntilExit()
  }
}
