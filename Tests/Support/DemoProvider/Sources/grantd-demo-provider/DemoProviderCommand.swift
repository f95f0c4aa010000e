public import ArgumentParser
public import DemoProvider
import Dispatch
@preconcurrency import Glibc

extension DemoServer.Rotation: ExpressibleByArgument {}
extension DemoServer.Approval: ExpressibleByArgument {}
extension DemoServer.Preset: ExpressibleByArgument {}

@main
struct DemoProviderCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "grantd-demo-provider",
    abstract: "Run an OpenID Connect provider on loopback, with faults.",
    discussion: """
      It speaks as five other systems too, at their own paths: a video management system (/api/v1), Zephr \
      (/blaize), Dropbox (/oauth2, /2), Uber (/oauth/v2) and 7Pass (--preset 7pass). It signs in whoever asks, \
      without a password: alice, bob, and user-1, user-2, … It prints one line, 'ready {"issuer": …, "port": …}', \
      when it listens, and ends on SIGTERM or SIGINT. Faults are set with POST /_control/fault.
      """)

  @Option(help: "The port to listen on; 0 lets the kernel choose.")
  var port = 0
  @Option(help: "127.0.0.1 or ::1.")
  var host = "127.0.0.1"
  @Option(help: "Use the settings of one system; the others are served too.")
  var preset: DemoServer.Preset?
  @Option(help: "Seconds that an access token lives (5, unless a preset differs).")
  var accessTtl: Double?
  @Option(help: "Seconds that a refresh token lives (3600, unless a preset differs).")
  var refreshTtl: Double?
  @Option(help: "Rotate refresh tokens by this rule. Default: strict, or the preset's.")
  var rotation: DemoServer.Rotation?
  @Option(help: "Seconds that a rotated refresh token is still good for, with --rotation grace.")
  var grace = 5.0
  @Option(help: "Allow sign-ins at once (auto), or ask the user on a page (ask).")
  var approve = DemoServer.Approval.auto
  @Option(help: "The registered client.")
  var clientId = "demo"
  @Option(help: "The client's secret; without one it is a public client.")
  var clientSecret: String?
  @Option(help: "An exact redirect URI besides http on 127.0.0.1 and ::1; may be repeated.")
  var redirectUri: [String] = []

  @Option(
    help: ArgumentHelp(
      "Any setting of the control API; may be repeated.",
      discussion: "For example --set device_interval=1 --set require_par=true. GET /_control/settings lists them.",
      valueName: "name=value"))
  var set: [String] = []

  func validate() throws {
    var settings = DemoServer.Settings()
    try Self.apply(set, to: &settings)
    guard (0...65535).contains(port) else { throw ValidationError("--port is between 0 and 65535.") }
    guard [accessTtl ?? 0, refreshTtl ?? 0, grace].allSatisfy({ (0...1e9).contains($0) }) else {
      throw ValidationError("Lifetimes are between 0 and 1000000000 seconds.")
    }
  }

  func run() async throws {
    let (signals, sources) = Self.endingSignals()
    var options = DemoServer.Options()
    options.host = host
    options.port = port
    options.clients = [.init(id: clientId, secret: clientSecret, redirectURIs: redirectUri)]
    if let preset { options.settings.use(preset) }
    if let accessTtl { options.settings.accessTTL = .seconds(accessTtl) }
    if let refreshTtl { options.settings.refreshTTL = .seconds(refreshTtl) }
    if let rotation { options.settings.rotation = rotation }
    options.settings.grace = .seconds(grace)
    options.settings.approve = approve
    try Self.apply(set, to: &options.settings)
    let server = try await DemoServer.start(options)
    print("ready {\"issuer\":\"\(server.issuer)\",\"port\":\(server.port)}")
    fflush(stdout)
    for await _ in signals { break }
    await server.stop()
    withExtendedLifetime(sources) {}
  }

  /// A value is JSON, or else a plain text.
  private static func apply(_ pairs: [String], to settings: inout DemoServer.Settings) throws {
    for pair in pairs {
      let parts = pair.split(separator: "=", maxSplits: 1).map(String.init)
      guard parts.count == 2 else { throw ValidationError("--set takes name=value, not \(pair).") }
      do throws(DemoServer.Misuse) {
        try settings.set(parts[0], to: DemoServer.JSON(text: parts[1]) ?? .string(parts[1]))
      } catch {
        throw ValidationError("--set: \(error.description).")
      }
    }
  }

  /// One element for each SIGTERM or SIGINT from now on, for as long as the sources are kept.
  private static func endingSignals() -> (AsyncStream<Void>, [any DispatchSourceSignal]) {
    let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
    let sources = [SIGTERM, SIGINT].map { number in
      signal(number, SIG_IGN)
      let source = DispatchSource.makeSignalSource(signal: number)
      source.setEventHandler { continuation.yield() }
      source.resume()
      return source
    }
    return (stream, sources)
  }
}
