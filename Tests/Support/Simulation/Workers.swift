import Foundation
@preconcurrency import Glibc

/// Several processes, each with its share of the seeds.
struct Workers {
  let command: CommandLineOptions

  init(_ command: CommandLineOptions) { self.command = command }

  /// The exit status.
  func run() -> Int32 {
    let folder = FileManager.default.temporaryDirectory.path + "/grantd-simulate-\(getpid())"
    try? FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let jobs = UInt64(command.jobs)
    var processes: [(Process, String)] = []
    for job in 0..<jobs {
      let tally = "\(folder)/\(job)"
      let process = Process()
      process.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
      let share = command.count / jobs + (job < command.count % jobs ? 1 : 0)
      process.arguments =
        [
          "--first", "\(command.first + job)", "--step", "\(jobs)", "--seeds", "\(share)", "--real-every",
          "\(command.realEvery)", "--tally", tally,
        ] + passedOn
      do {
        try process.run()
      } catch {
        Simulate.fail("cannot start a worker: \(error)")
      }
      processes.append((process, tally))
    }
    return finish(processes)
  }

  private var passedOn: [String] {
    var arguments: [String] = []
    if !command.options.without.isEmpty {
      arguments += ["--without", command.options.without.map(\.rawValue).joined(separator: ",")]
    }
    if let accounts = command.options.accounts { arguments += ["--accounts", "\(accounts)"] }
    if command.isFleet { arguments.append("--fleet") }
    if let fault = command.options.fault { arguments += ["--break", fault.rawValue] }
    if let sabotage = command.options.sabotage { arguments += ["--break", sabotage.rawValue] }
    if !command.isShrunk { arguments.append("--no-shrink") }
    return arguments
  }

  private func finish(_ processes: [(Process, String)]) -> Int32 {
    var tally = Counts()
    var status: Int32 = 0
    for (process, path) in processes {
      process.waitUntilExit()
      if process.terminationReason == .uncaughtSignal {
        print("✘ a worker was ended by signal \(process.terminationStatus)")
        status = 1
      }
      status = max(status, process.terminationStatus)
      tally.add(Counts(from: path))
    }
    tally.show()
    let missing = tally.missing
    if command.options.sabotage == nil, tally["seeds"] >= 1000, status == 0, !missing.isEmpty {
      print("✘ never happened, so that nothing is proven of it: \(missing.joined(separator: ", "))")
      status = 1
    }
    return status
  }
}

extension Counts {
  /// The events that a run of a thousand seeds or more must contain.
  static let wanted =
    Fault.allCases.map { "fault \($0.rawValue)" } + [
      "refreshes sent", "rotations saved", "answers lost after acting", "crashes", "crashes before a commit",
      "crashes after a commit", "crashes with an answer in hand", "restarts", "reboots", "wrong clocks at boot",
      "clock steps", "suspends", "freezes", "answers that came while the process was stopped",
      "answers overdue that came", "outages", "probes seen", "recoveries seen", "recoveries asked for",
      "disk: full", "disk: slow", "disk: gone", "disk: missing", "rebuilds", "logins saved",
      "accounts forgotten", "consents withdrawn", "reloads", "tokens released", "tokens for a resource",
      "token.get from the cache", "token.report_rejected",
      "ended by the provider",
      "ended as lost_rotation", "ended without a refresh token", "at rest: ok", "at rest: login_required",
      "real stores", "requests over a rate limit", "accounts looked at within a rate limit",
      "starts with a clock behind", "lifetimes looked at",
    ]

  var missing: [String] { Self.wanted.filter { self[$0] == 0 } }

  init(from path: String) {
    let text = (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
    for line in text.split(separator: "\n") {
      let parts = line.split(separator: " ", maxSplits: 1)
      if parts.count == 2, let number = Int(parts[0]) { add(String(parts[1]), number) }
    }
  }

  private var text: String {
    numbers.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)\n" }.joined()
  }

  func write(to path: String) { try? text.write(toFile: path, atomically: true, encoding: .utf8) }

  func show() { print(text, terminator: "") }
}
