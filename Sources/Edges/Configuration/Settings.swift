public import Broker
public import Grants
public import OAuth
public import Providers

/// The whole configuration, read and checked.
public struct Settings: Sendable, Equatable {
  /// The files it came from, in the order read; empty: built-in defaults.
  public var files: [String] = []
  public var providers: [ProviderSettings] = []
  /// Those that speak no OAuth.
  public var systems: [SystemSettings] = []
  /// The unattended accounts.
  public var accounts: [DeclaredAccount] = []
  public var rules: [Rule] = []
  public var callback = CallbackSettings()
  public var socket = SocketSettings()
  public var store = StoreSettings()
  public var refresh = RefreshPolicy()
  public var metrics = MetricsSettings()
  public var http = HTTPSettings()
  /// The proxies for the broker's requests.
  public var proxies = HTTPProxies()
  /// The HTTP settings for programs.
  public var loopback = LoopbackSettings()
  public var lock = LockSettings()
  public var notify = NotifySettings()
  public var audit = AuditPolicy()
  public var limits = CallerLimits()
  /// The URL of the client ID metadata document that an administrator has published; nil: there is none.
  public var clientMetadata: String?
  public var stepUp = StepUpPolicy()
  public var hooks: [Hook] = []
  /// What units may load as credentials.
  public var credentials = UnitCredentials()
  /// Token files. A path that does not begin with `/` is below the folder that the instance has for them.
  public var tokenFiles: [TokenFile] = []
  /// `trace`, `debug`, `info`, `notice`, `warning`, `error`.
  public var logLevel: String?
  /// Warnings for the user, each with file and line.
  public var warnings: [String] = []

  public init() {}

  /// All providers, in their protocol form.
  public var allProviders: [any Provider] {
    providers.map { OAuthProvider($0) } + systems.map(\.provider)
  }

  /// The addresses that browsers come back to which say themselves where they are.
  public var webAddresses: [RedirectURI] {
    providers.flatMap(\.webAddresses)
      + systems.compactMap(\.site.redirect.fixed)
  }

  public struct CallbackSettings: Sendable, Equatable {
    public var enabled = true
    /// 0: the kernel chooses, and the port is kept over restarts where it is free.
    public var port: Int = 0
    public var ipv4 = true
    public var ipv6 = true
    /// The public origin of a reverse proxy: `https://broker.example.com`, in the form of `RedirectURI.origin`.
    public var publicOrigin: String?
  }

  public struct SocketSettings: Sendable, Equatable {
    /// Absent: the instance's own (`/run/grantd/grantd.sock`, `$XDG_RUNTIME_DIR/grantd/grantd.sock`).
    public var path: String?
    public var mode: UInt32?
    public var connections: Int = 4096
    public var connectionsPerUser: Int = 1024
    public var requestsPerConnection: Int = 64
    /// MiB of requests that are not answered.
    public var requestMemory: Int = 32
    public var requestMemoryPerUser: Int = 8
    /// MiB of replies that are not read.
    public var replyMemory: Int = 64
    public var replyMemoryPerUser: Int = 8
    public var linesPerSecond: Int = 10_000
    /// MiB.
    public var volumePerSecond: Int = 32
    /// The part of each budget that all callers without a rule have together.
    public var shareWithoutRule: Double = 0.0625
    public var idleTimeout: Duration = .seconds(600)
  }

  public struct MetricsSettings: Sendable, Equatable {
    /// The address of the HTTP listener; nil: none.
    public var listen: LocalAddress?
  }

  /// When a user's broker locks automatically.
  public struct LockSettings: Sendable, Equatable {
    public var onSuspend = false
    public var onScreenLock = false

    public init() {}
  }

  /// Notices on the desktop of a user's broker.
  public struct NotifySettings: Sendable, Equatable {
    public var isEnabled = true
  }

  public struct HTTPSettings: Sendable, Equatable {
    /// The loopback port; nil: none.
    public var listen: LocalAddress?
    /// The Unix socket, as written: a path without a leading `/` is next to the broker's own socket; nil: none.
    public var unix: String?
  }

  public struct StoreSettings: Sendable, Equatable {
    /// The state folder. Absent: the instance's own (`/var/lib/grantd`, `$XDG_STATE_HOME/grantd`).
    public var path: String?
    /// The file that holds the sealing key. Absent: the credential `grantd.key`, else `grantd.key` in the state folder.
    public var keyFile: String?
    /// Nil: SQLite.
    public var kind: StoreKind?
    /// A connection string of libpq, without a password.
    public var connection: String?
    public var passwordFile: String?
    /// The contents of the password file.
    public var password: Secret?
  }

  public enum StoreKind: String, Sendable, CaseIterable {
    case sqlite, postgresql
  }
}
