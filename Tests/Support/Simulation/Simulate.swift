@preconcurrency import Foundation
@preconcurrency import Glibc
import Scheduling

/// Lives many seeds' worlds, and shows the first that breaks an invariant.
@main
enum Simulate {
  /// The number of failing seeds of one process that are shown.
  static let shown = 3
  /// The number of a failing seed's last lines that are shown.
  static let lines = 80
  /// The time limit of one seed in seconds, including shrinking.
  static let patience: UInt32 = 240
  /// Every so many seeds is lived twice, and has to be the same both times: one with rows in memory, since the real
  /// store has a separate thread.
  static let replayedEvery: UInt64 = 50

  static func main() {
    // Dictionaries are in the same order in each process.
    if getenv("SWIFT_DETERMINISTIC_HASHING") == nil {
      setenv("SWIFT_DETERMINISTIC_HASHING", "1", 1)
      var arguments: [UnsafeMutablePointer<CChar>?] = CommandLine.arguments.map { strdup($0) } + [nil]
      execv("/proc/self/exe", &arguments)
      fail("cannot start itself again: \(String(cString: strerror(errno)))")
    }
    setvbuf(stdout, nil, _IOLBF, 0)
    let command: CommandLineOptions
    do throws(CommandLineOptions.Wrong) {
      command = try CommandLineOptions(Array(CommandLine.arguments.dropFirst()))
    } catch {
      fail("\(error.message)\n\(CommandLineOptions.usage)")
    }
    exit(command.jobs > 1 ? Workers(command).run() : work(command))
  }

  static func fail(_ message: String) -> Never {
    fputs("simulate: \(message)\n", stderr)
    exit(64)
  }

  /// Lives the seeds one after the other; the exit status.
  static func work(_ command: CommandLineOptions) -> Int32 {
    Scheduler.takeOver(.process)
    var tally = Counts()
    var failures = 0
    var seed = command.first
    let parent = getppid()
    signal(SIGALRM) { _ in Simulate.fail("a seed does not end: try them one by one") }
    for _ in 0..<command.count {
      alarm(patience)
      let (counts, violation) = live(seed, command)
      tally.add(counts)
      tally.add("seeds")
      if let violation {
        failures += 1
        report(seed, violation, command)
        if failures == shown { break }
      }
      if command.tally != nil, tally["seeds"] % 500 == 0 { print("… seed \(seed)") }
      seed += command.step
      // No receiver is left.
      if command.tally != nil, getppid() != parent { break }
    }
    tally.add("failures", failures)
    if let path = command.tally {
      tally.write(to: path)
    } else if !command.isReplay {
      tally.show()
    }
    return failures == 0 ? 0 : 1
  }

  private static func fleet(_ seed: UInt64, _ command: CommandLineOptions, isTraced: Bool) -> Fleet {
    let fleet = Fleet(seed: seed, fault: command.options.fault, isTraced: isTraced)
    fleet.live()
    return fleet
  }

  private static func live(_ seed: UInt64, _ command: CommandLineOptions) -> (Counts, Violation?) {
    if command.isFleet {
      let fleet = fleet(seed, command, isTraced: command.isReplay)
      if command.isReplay { for line in fleet.trace.lines { print("  \(line)") } }
      return (fleet.counts, fleet.violation)
    }
    let isReplayed = seed % replayedEvery == 1
    let first = world(seed, command, isTraced: isReplayed)
    guard first.violation == nil, isReplayed else {
      if command.isReplay, first.violation == nil { show(world(seed, command, isTraced: true), all: true) }
      return (first.counts, first.violation)
    }
    let second = world(seed, command, isTraced: true)
    guard second.trace.fingerprint == first.trace.fingerprint else {
      return (first.counts, Violation(invariant: .replay, detail: difference(first, second), at: 0))
    }
    return (first.counts, nil)
  }

  private static func difference(_ first: World, _ second: World) -> String {
    let (one, two) = (first.trace.lines, second.trace.lines)
    let same = zip(one, two).prefix { $0 == $1 }.count
    let before = one[..<same].suffix(5).map { "  both  \($0)" }
    let after = one[same...].prefix(5).map { "  first  \($0)" } + two[same...].prefix(5).map { "  second \($0)" }
    return (["its two runs differ"] + before + after).joined(separator: "\n")
  }

  private static func world(_ seed: UInt64, _ command: CommandLineOptions, isTraced: Bool) -> World {
    var options = command.options
    if command.realEvery > 0, seed % command.realEvery == 0 { options.folder = StateFolders.make(seed) }
    defer { options.folder.map(StateFolders.remove) }
    let world = World(seed: seed, options: options, isTraced: isTraced)
    world.live()
    return world
  }

  /// Shows a failing seed as small as it can be made.
  private static func report(_ seed: UInt64, _ violation: Violation, _ command: CommandLineOptions) {
    print("✘ seed \(seed) at \(Trace.clock(violation.at)): \(violation.invariant.rawValue)")
    print("  \(violation.detail)")
    if command.isFleet {
      if !command.isReplay {
        for line in fleet(seed, command, isTraced: true).trace.lines.suffix(lines) { print("  \(line)") }
      }
      return print("  replay: \(command.replay(seed))")
    }
    var smaller = command
    if command.isShrunk { shrink(seed, violation.invariant, &smaller) }
    let again = world(seed, smaller, isTraced: true)
    show(again, all: command.isReplay)
    print("  replay: \(smaller.replay(seed))")
  }

  /// Removes the parts that are not necessary to break the same invariant.
  private static func shrink(_ seed: UInt64, _ invariant: Invariant, _ command: inout CommandLineOptions) {
    guard invariant != .replay else { return }
    func stillFails(_ candidate: CommandLineOptions) -> Bool {
      world(seed, candidate, isTraced: false).violation?.invariant == invariant
    }
    for most in [1, 2, 4] {
      var candidate = command
      candidate.options.accounts = most
      if stillFails(candidate) {
        command = candidate
        break
      }
    }
    for hazard in Hazard.allCases {
      var candidate = command
      candidate.options.without.insert(hazard)
      if stillFails(candidate) { command = candidate }
    }
  }

  private static func show(_ world: World, all: Bool) {
    let hazards = world.hazards.map(\.rawValue).sorted().joined(separator: " ")
    print("  \(world.accounts.count) accounts, \(world.providers.count) providers; \(hazards)")
    for provider in world.providers { print("  \(provider.summary)") }
    for line in all ? world.trace.lines[...] : world.trace.lines.suffix(lines) { print("  \(line)") }
    if let violation = world.violation { print("  ✘ \(violation.invariant.rawValue): \(violation.detail)") }
  }
}

extension CommandLineOptions {
  /// The command that lives this seed again.
  func replay(_ seed: UInt64) -> String {
    var arguments = isFleet ? ["--fleet"] : []
    if let fault = options.fault { arguments += ["--break", fault.rawValue] }
    if let accounts = options.accounts { arguments += ["--accounts", "\(accounts)"] }
    if !options.without.isEmpty {
      arguments += ["--without", options.without.map(\.rawValue).sorted().joined(separator: ",")]
    }
    if let sabotage = options.sabotage { arguments += ["--break", sabotage.rawValue] }
    return "make simulate SEED=\(seed)" + (arguments.isEmpty ? "" : " ARGS='\(arguments.joined(separator: " "))'")
  }
}

/// The folder of the real stores, while a seed runs.
enum StateFolders {
  private static let base: String = {
    let places = ["/dev/shm", FileManager.default.temporaryDirectory.path]
    let place = places.first { FileManager.default.isWritableFile(atPath: $0) } ?? "/tmp"
    return "\(place)/grantd-simulate-\(getpid())"
  }()

  static func make(_ seed: UInt64) -> String {
    let folder = "\(base)/\(seed)"
    remove(folder)
    return folder
  }

  static func remove(_ folder: String) {
    try? FileManager.default.removeItem(atPath: folder)
    rmdir(base)
  }
}
