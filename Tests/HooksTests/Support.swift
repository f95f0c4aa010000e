import Broker
import BrokerAPI
import Foundation
import Glibc
import Logging
import Synchronization
import TestSupport
import Testing

@testable import Hooks

/// A folder of one test, with its programs.
final class Folder: Sendable {
  let path: String

  init() throws {
    path = FileManager.default.temporaryDirectory.appending(path: "hooks-\(UUID().uuidString)")
      .path(percentEncoded: false)
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }

  /// The command of a shell script; `$here` is this folder. The script is not executed itself: a child that another test
  /// is just starting may still have it open for writing, and then it cannot be.
  func script(_ name: String, _ text: String) throws -> [String] {
    let file = "\(path)/\(name)"
    try Data("here='\(path)'\n\(text)\n".utf8).write(to: URL(filePath: file))
    return ["/bin/sh", file]
  }

  func read(_ name: String) -> String? { try? String(contentsOfFile: "\(path)/\(name)", encoding: .utf8) }
  func touch(_ name: String) { _ = FileManager.default.createFile(atPath: "\(path)/\(name)", contents: nil) }
  func has(_ name: String) -> Bool { FileManager.default.fileExists(atPath: "\(path)/\(name)") }

  /// The number on the file's first line.
  func pid(_ name: String) throws -> pid_t {
    try #require(read(name).flatMap { pid_t($0.prefix { $0 != "\n" }) })
  }

  func names(_ prefix: String) -> [String] {
    ((try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []).filter { $0.hasPrefix(prefix) }
  }
}

@Sendable func monotonic() -> Duration {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
}

extension Hook {
  static func test(
    _ command: [String], name: String = "test:1", events: Set<EventType> = Set(EventType.allCases),
    accounts: [String]? = nil, timeout: Duration = .seconds(30), pass: [String] = []
  ) -> Hook {
    Hook(
      name: name, command: command, events: events, accounts: accounts, timeout: timeout, passEnvironment: pass)
  }
}

extension Hooks {
  convenience init(
    _ hooks: [Hook], environment: [String: String] = [:], log: LoggedLines = LoggedLines(),
    limits change: (inout Limits) -> Void = { _ in }
  ) {
    var limits = Limits()
    change(&limits)
    self.init(limits: limits, environment: environment, uptime: monotonic, logger: log.logger(.trace))
    replace(by: hooks)
  }

  func count(_ result: HookResult) -> UInt64 { statistics.results[result, default: 0] }
}

extension Run {
  /// Waits for a run of its own.
  static func report(
    _ command: [String], environment: [String] = [], input: String = "", timeout: Duration = .seconds(30),
    grace: Duration = .seconds(2)
  ) async -> Report {
    let run = Run(
      command: command, environment: environment, input: Array(input.utf8), timeout: timeout, grace: grace,
      uptime: monotonic)
    return await withCheckedContinuation { continuation in run.start { continuation.resume(returning: $0) } }
  }
}

/// Whether a process exists and is not only waiting for its parent.
func runs(_ pid: pid_t) -> Bool {
  guard let stat = try? String(contentsOfFile: "/proc/\(pid)/stat", encoding: .utf8),
    let state = stat.split(separator: ") ").last?.first
  else { return false }
  return state != "Z"
}

func openDescriptors() -> Int { ((try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []).count }
