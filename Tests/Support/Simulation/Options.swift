import Foundation

/// The options of a run in addition to its seed; the same options and the same seed make the same run.
struct Options {
  /// The folder for the real store; nil: rows in memory.
  var folder: String?
  var without: Set<Hazard> = []
  /// The maximum number.
  var accounts: Int?
  var sabotage: Sabotage?
  /// For a fleet.
  var fault: FleetFault?
}

/// A fault in the broker, to test that the simulation finds it.
enum Sabotage: String, CaseIterable {
  /// The disk loses a commit now and then, although it confirmed it.
  case disk
  /// A token endpoint gives one user the tokens of another one now and then.
  case mixup
  /// A refresh token is given up without a refusal by the provider.
  case forgetful
  /// Requests end by a clock that continues while the process is stopped, and data received in this time are discarded.
  case frozen
  /// An answer that comes after its request's time is thrown away.
  case impatient
  /// An answer with an odd member is refused whole.
  case picky
  /// A provider with a rate limit takes no request of one account.
  case starving
  /// A provider says that its tokens live for twice their time.
  case boastful
}

/// The options of the command line.
struct CommandLineOptions {
  var first: UInt64 = 1
  var count: UInt64 = 1
  var step: UInt64 = 1
  var jobs = 1
  /// One of this number of seeds uses the real store.
  var realEvery: UInt64 = 10
  /// Several brokers on one store.
  var isFleet = false
  var isTraced = false
  var isShrunk = true
  /// Exactly one seed: its whole trace is wanted.
  var isReplay = false
  var tally: String?
  var options = Options()

  static let usage = """
    usage: grantd-simulate [--seeds N] [--first SEED] [--jobs N] [--real-every N] [options]
           grantd-simulate --seed SEED [options]     one seed, with its trace
    options:
      --without HAZARD,…   leaves these out: \(Hazard.allCases.map(\.rawValue).joined(separator: " "))
      --accounts N         the maximum number of accounts
      --no-shrink          a failing seed is shown unchanged
      --break NAME         breaks something on purpose: \(Sabotage.allCases.map(\.rawValue).joined(separator: " "))
      --fleet              2 to 4 brokers on one store; --break: \(FleetFault.allCases.map(\.rawValue).joined(separator: " "))
    """

  struct Wrong: Error { var message: String }

  init(_ arguments: [String]) throws(Wrong) {
    var rest = arguments[...]
    func number(_ name: String) throws(Wrong) -> UInt64 {
      guard let text = rest.popFirst(), let value = UInt64(text) else { throw Wrong(message: "\(name): a number") }
      return value
    }
    while let argument = rest.popFirst() {
      switch argument {
      case "--seeds": count = try number(argument)
      case "--first": first = try number(argument)
      case "--step": step = max(1, try number(argument))
      case "--jobs": jobs = Int(max(1, try number(argument)))
      case "--real-every": realEvery = try number(argument)
      case "--accounts": options.accounts = Int(max(1, try number(argument)))
      case "--no-shrink": isShrunk = false
      case "--tally": tally = rest.popFirst()
      case "--seed":
        first = try number(argument)
        (count, isReplay, isTraced) = (1, true, true)
      case "--without":
        for name in (rest.popFirst() ?? "").split(separator: ",") {
          guard let hazard = Hazard(rawValue: String(name)) else { throw Wrong(message: "no hazard \(name)") }
          options.without.insert(hazard)
        }
      case "--break":
        let name = rest.popFirst() ?? ""
        (options.sabotage, options.fault) = (Sabotage(rawValue: name), FleetFault(rawValue: name))
        guard options.sabotage != nil || options.fault != nil else { throw Wrong(message: "--break: a name") }
      case "--fleet": isFleet = true
      default: throw Wrong(message: "unknown: \(argument)")
      }
    }
  }
}
