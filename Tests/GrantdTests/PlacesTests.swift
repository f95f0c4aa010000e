import Broker
import Glibc
import GrantdConfiguration
import Grants
import Testing

@testable import grantd

@Suite struct PlacesTests {
  private func places(
    _ instance: Policy.Instance, config: String? = nil, state: String? = nil, socket: String? = nil,
    _ environment: [String: String] = [:]
  ) throws -> Places {
    try Places(
      instance: instance, config: config, state: state, socket: socket, templates: ["/mine"], environment: environment)
  }

  private func settings(_ change: (inout Settings) -> Void = { _ in }) -> Settings {
    var settings = Settings()
    change(&settings)
    return settings
  }

  @Test("a system instance uses the folders of the service manager, and no home folder")
  func system() throws {
    let plain = try places(.system, ["HOME": "/root", "https_proxy": "http://p", "XDG_STATE_HOME": "/x"])
    #expect(plain.configuration == "/etc/grantd/grantd.toml" && !plain.configurationIsNamed)
    #expect(plain.stateFolder(settings()) == "/var/lib/grantd" && plain.cacheFolder == "/var/cache/grantd")
    #expect(plain.socketPath(settings()) == "/run/grantd/grantd.sock")
    #expect(plain.templateFolders.prefix(2) == ["/mine", "/etc/grantd/providers.d"])
    #expect(plain.home == nil && plain.proxyVariables.isEmpty && plain.httpSocketPath(settings()) == nil)
    let given = try places(
      .system, ["STATE_DIRECTORY": "/s", "CACHE_DIRECTORY": "/c", "CREDENTIALS_DIRECTORY": "/k"])
    #expect(given.stateFolder(settings()) == "/s" && given.cacheFolder == "/c" && given.credentialsDirectory == "/k")
    let empty = try places(.system, ["STATE_DIRECTORY": "", "CACHE_DIRECTORY": ""])
    #expect(empty.stateFolder(settings()) == "/var/lib/grantd" && empty.cacheFolder == "/var/cache/grantd")
  }

  @Test("a user's instance follows the XDG Base Directory Specification; an empty variable is not set")
  func user() throws {
    let home = try places(.user, ["HOME": "/home/ada", "XDG_CONFIG_HOME": "", "XDG_RUNTIME_DIR": ""])
    #expect(home.configuration == "/home/ada/.config/grantd/grantd.toml" && home.home == "/home/ada")
    #expect(home.stateFolder(settings()) == "/home/ada/.local/state/grantd")
    #expect(home.cacheFolder == "/home/ada/.cache/grantd")
    #expect(home.socketPath(settings()) == "/run/user/\(getuid())/grantd/grantd.sock")
    #expect(home.templateFolders.prefix(2) == ["/mine", "/home/ada/.config/grantd/providers.d"])
    let folders = try places(
      .user,
      [
        "HOME": "/home/ada", "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s", "XDG_CACHE_HOME": "/x",
        "XDG_RUNTIME_DIR": "/r", "https_proxy": "http://p:1", "NO_PROXY": "h", "HTTP_PROXY": "http://attacker",
      ])
    #expect(folders.configuration == "/c/grantd/grantd.toml" && folders.cacheFolder == "/x/grantd")
    #expect(folders.stateFolder(settings()) == "/s/grantd" && folders.socketPath(settings()) == "/r/grantd/grantd.sock")
    // A CGI program's HTTP_PROXY comes from a request's header.
    #expect(folders.proxyVariables == ["https_proxy": "http://p:1", "NO_PROXY": "h"])
    #expect(folders.sources.environment == folders.proxyVariables && folders.sources.home == "/home/ada")
  }

  @Test("the command line precedes the configuration, which precedes the defaults")
  func precedence() throws {
    let configured = settings {
      $0.store.path = "/store"
      $0.socket.path = "/socket/b.sock"
    }
    let plain = try places(.system)
    #expect(plain.stateFolder(configured) == "/store" && plain.socketPath(configured) == "/socket/b.sock")
    let named = try places(.system, config: "/f.toml", state: "/mine", socket: "/mine.sock")
    #expect(named.stateFolder(configured) == "/mine" && named.socketPath(configured) == "/mine.sock")
    #expect(named.configuration == "/f.toml" && named.configurationIsNamed && named.sources.mustExist)
    #expect(try !places(.system).sources.mustExist)
  }

  @Test("a reload needs the file of the start, and refuses incomplete files as a start and a check do")
  func reload() throws {
    let plain = try places(.system)
    #expect(plain.sources.mustBeComplete && plain.reloadSources(after: []).mustBeComplete)
    #expect(!plain.reloadSources(after: ["/etc/grantd/grantd.d/a.toml"]).mustExist)
    #expect(plain.reloadSources(after: [plain.configuration]).mustExist)
  }

  @Test(
    "the other sockets are next to the broker's, under a name of that broker",
    arguments: [
      ("/run/grantd/grantd.sock", "/run/grantd/credentials.sock", "/run/grantd/http.sock", "/run/grantd"),
      ("/tmp/two.sock", "/tmp/two-credentials.sock", "/tmp/two-http.sock", "/tmp"),
      ("/tmp/a.b.sock", "/tmp/a.b-credentials.sock", "/tmp/a.b-http.sock", "/tmp"),
      ("/tmp/x.d/plain", "/tmp/x.d/plain-credentials.sock", "/tmp/x.d/plain-http.sock", "/tmp/x.d"),
      ("own.sock", "own-credentials.sock", "own-http.sock", "."),
    ])
  func siblings(_ socket: String, _ credentials: String, _ http: String, _ folder: String) throws {
    let places = try places(.user, socket: socket, ["HOME": "/home/ada"])
    #expect(places.credentialSocketPath(settings()) == credentials && places.httpSocketPath(settings()) == http)
    #expect(places.socketFolder(settings()) == folder && places.tokenFolder(settings()) == folder + "/files")
  }

  @Test("the socket for HTTP: as configured, relative to the broker's socket; no default that is too long")
  func httpSocket() throws {
    let system = try places(.system)
    #expect(system.httpSocketPath(settings { $0.http.unix = "web.sock" }) == "/run/grantd/web.sock")
    #expect(system.httpSocketPath(settings { $0.http.unix = "/srv/web.sock" }) == "/srv/web.sock")
    for (length, isThere) in [(107, true), (108, false)] {
      let folder = "/" + String(repeating: "d", count: length - "//http.sock".utf8.count)
      let user = try places(.user, socket: folder + "/grantd.sock", ["HOME": "/home/ada"])
      #expect((user.httpSocketPath(settings())?.utf8.count == length) == isThere)
      #expect((user.httpSocketPath(settings()) == nil) == !isThere)
    }
  }

  @Test("a token file without a whole path is in the folder beside the socket")
  func tokenFiles() throws {
    let account = try #require(AccountName(rawValue: "work"))
    let configured = settings {
      $0.tokenFiles = ["work", "/srv/app/token", "deep/er"].map {
        TokenFile(place: .init(path: $0), name: $0, account: account, reader: .group(1))
      }
    }
    let paths = try places(.system).tokenFiles(configured).map(\.place.path)
    #expect(paths == ["/run/grantd/files/work", "/srv/app/token", "/run/grantd/files/deep/er"])
  }

  @Test("state folders have different names in a shared folder, the same at each start")
  func names() {
    // FNV-1a with 64 bits: the offset basis of no bytes, and the published value of “a”.
    #expect(Places.name(of: "") == "grantd-cbf29ce484222325" && Places.name(of: "a") == "grantd-af63dc4c8601ec8c")
    #expect(Places.name(of: "/var/lib/grantd") != Places.name(of: "/var/lib/grantd2"))
  }
}
