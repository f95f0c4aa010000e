public import BrokerAPI

/// A program that is run when something happens (`[[on_event]]`).
public struct Hook: Sendable, Equatable {
  /// For people: where it is written (`/etc/grantd/grantd.toml:12`).
  public var name: String
  /// The program, as an absolute path, and its arguments. No shell sees them.
  public var command: [String]
  public var events: Set<EventType>
  /// Account names, `*` standing for any run of characters; nil: all, and events that concern no account.
  public var accounts: [String]?
  /// How long a run may take before it is ended.
  public var timeout: Duration
  /// Variables of the broker's own environment that are passed on, in addition to those of every hook.
  public var passEnvironment: [String]

  public init(
    name: String, command: [String], events: Set<EventType>, accounts: [String]?, timeout: Duration,
    passEnvironment: [String]
  ) {
    self.name = name
    self.command = command
    self.events = events
    self.accounts = accounts
    self.timeout = timeout
    self.passEnvironment = passEnvironment
  }

  /// Whether it runs for the event.
  public func wants(_ event: Event) -> Bool {
    guard events.contains(event.type) else { return false }
    guard let accounts else { return true }
    guard let account = event.account else { return false }
    return accounts.contains { wildcard($0, matches: account) }
  }
}
