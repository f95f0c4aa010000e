import Broker
import Glibc
import GrantdConfiguration
import Platform
import Sealing
import UnixSocket

/// Where this instance has its files.
struct Places: Sendable {
  var instance: Policy.Instance
  var configuration: String
  /// Whether the configuration was asked for by name.
  var configurationIsNamed: Bool
  /// As asked for on the command line; the configuration may name others.
  var state: String?
  var socket: String?
  var defaultState: String
  var defaultSocket: String
  /// Its content may be lost at any time.
  var cacheFolder: String
  var templateFolders: [String]
  var credentialsDirectory: String?
  /// The user's home folder; nil: a system instance.
  var home: String?
  /// The variables that name proxies; empty: a system instance.
  var proxyVariables: [String: String] = [:]

  init(
    instance: Policy.Instance, config: String?, state: String?, socket: String?, templates: [String],
    environment: [String: String]
  ) throws(PlaceError) {
    self.instance = instance
    self.state = state
    self.socket = socket
    configurationIsNamed = config != nil
    credentialsDirectory = environment["CREDENTIALS_DIRECTORY"]
    func variable(_ name: String) -> String? { environment[name].flatMap { $0.isEmpty ? nil : $0 } }
    switch instance {
    case .system:
      configuration = config ?? "/etc/grantd/grantd.toml"
      defaultState = variable("STATE_DIRECTORY") ?? "/var/lib/grantd"
      defaultSocket = "/run/grantd/grantd.sock"
      cacheFolder = variable("CACHE_DIRECTORY") ?? "/var/cache/grantd"
      templateFolders = templates + ["/etc/grantd/providers.d"]
    case .user:
      guard let home = variable("HOME") ?? Self.home() else { throw .noHome }
      self.home = home
      proxyVariables = environment.filter {
        ["https_proxy", "HTTPS_PROXY", "http_proxy", "no_proxy", "NO_PROXY"].contains($0.key)
      }
      let configFolder = (variable("XDG_CONFIG_HOME") ?? home + "/.config") + "/grantd"
      configuration = config ?? configFolder + "/grantd.toml"
      defaultState = (variable("XDG_STATE_HOME") ?? home + "/.local/state") + "/grantd"
      cacheFolder = (variable("XDG_CACHE_HOME") ?? home + "/.cache") + "/grantd"
      let runtime = variable("XDG_RUNTIME_DIR") ?? "/run/user/\(getuid())"
      defaultSocket = runtime + "/grantd/grantd.sock"
      templateFolders = templates + [configFolder + "/providers.d"]
    }
    templateFolders += Self.shippedTemplates()
  }

  /// `PREFIX/share/grantd/providers.d` next to `PREFIX/bin/grantd`; for a build in the source tree, the tree's own.
  private static func shippedTemplates() -> [String] {
    guard let program = Environment.ownProgram else { return [] }
    let folder = PrivateFiles.folder(of: program)
    var folders = [PrivateFiles.folder(of: folder) + "/share/grantd/providers.d"]
    if let build = program.firstRange(of: "/.build") {
      folders.append(program[..<build.lowerBound] + "/config/providers.d")
    }
    return folders
  }

  private static func home() -> String? { UserDatabase.user(getuid())?.home }

  /// The sources of a start and of `--check-config`.
  var sources: Settings.Sources {
    var sources = Settings.Sources(
      file: configuration, mustExist: configurationIsNamed, templateFolders: templateFolders,
      credentialsDirectory: credentialsDirectory,
      user: { name in UserDatabase.user(named: name)?.uid },
      group: { name in UserDatabase.group(named: name) },
      membership: { UserDatabase.membership(of: $0) ?? (.max, []) }, owner: geteuid(), home: home)
    sources.environment = proxyVariables
    sources.mustBeComplete = true
    return sources
  }

  /// The sources of a reload.
  ///
  /// - Parameter known: the files of the start. An editor may write a new file and rename it: for a moment there is none.
  func reloadSources(after known: [String]) -> Settings.Sources {
    var reload = sources
    reload.mustExist = reload.mustExist || known.contains(reload.file)
    return reload
  }

  /// The folder that the socket is in.
  func socketFolder(_ settings: Settings) -> String {
    let socket = socketPath(settings)
    let slash = socket.utf8.lastIndex(of: UInt8(ascii: "/"))
    return slash.map { String(socket[..<$0]) } ?? "."
  }

  /// `files` beside the socket.
  func tokenFolder(_ settings: Settings) -> String { socketFolder(settings) + "/files" }

  /// With their whole paths.
  func tokenFiles(_ settings: Settings) -> [TokenFile] {
    let folder = tokenFolder(settings)
    return settings.tokenFiles.map { file in
      var file = file
      if !file.place.path.hasPrefix("/") { file.place.path = folder + "/" + file.place.path }
      return file
    }
  }

  /// The file with the number of commits that a copy of the state folder lacks; nil: its folder cannot be used.
  func countFile(_ settings: Settings) -> String? {
    guard (try? PrivateFiles.prepareFolder(cacheFolder)) != nil else { return nil }
    return "\(cacheFolder)/\(Self.name(of: stateFolder(settings))).commits"
  }

  /// The name of files in folders that several brokers may share.
  static func name(of state: String) -> String {
    // FNV-1a.
    let hash = state.utf8.reduce(0xcbf2_9ce4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
    return "grantd-\(String(hash, radix: 16))"
  }

  func stateFolder(_ settings: Settings) -> String { state ?? settings.store.path ?? defaultState }

  func socketPath(_ settings: Settings) -> String { socket ?? settings.socket.path ?? defaultSocket }

  /// `credentials.sock` next to `grantd.sock`; next to a socket of another name one derived from it, as several brokers
  /// may use a folder.
  func credentialSocketPath(_ settings: Settings) -> String { sibling("credentials", settings) }

  /// The Unix socket for HTTP. A user's broker always has one, which only that user may connect to. Nil: none.
  func httpSocketPath(_ settings: Settings) -> String? {
    if let path = settings.http.unix { return path.hasPrefix("/") ? path : socketFolder(settings) + "/" + path }
    let path = sibling("http", settings)
    return instance == .user && path.utf8.count <= Self.longestSocketPath ? path : nil
  }

  /// `sun_path` of unix(7), without its end.
  private static let longestSocketPath = 107

  private func sibling(_ kind: String, _ settings: Settings) -> String {
    let socket = socketPath(settings)
    let start = socket.utf8.lastIndex(of: UInt8(ascii: "/")).map { socket.utf8.index(after: $0) } ?? socket.startIndex
    let last = socket[start...]
    let name = last.lastIndex(of: ".").map { last[..<$0] } ?? last
    return String(socket[..<start]) + (name == "grantd" ? "\(kind).sock" : "\(name)-\(kind).sock")
  }
}

enum PlaceError: Error, CustomStringConvertible {
  case noHome

  var description: String {
    switch self {
    case .noHome: "neither HOME nor the user database names a home folder: set HOME, or give --config and --state"
    }
  }
}
