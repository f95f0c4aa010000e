// swift-tools-version: 6.2
import PackageDescription

// Warnings are errors on the compiler that CI has; a newer one may warn of more, and must not prevent a build.
#if compiler(>=6.3) && compiler(<6.4)
  let strictness: [SwiftSetting] = [.unsafeFlags(["-warnings-as-errors"])]
#else
  let strictness: [SwiftSetting] = []
#endif

let settings: [SwiftSetting] =
  [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("ExistentialAny"),
  ] + strictness

let argumentParser = Target.Dependency.product(name: "ArgumentParser", package: "swift-argument-parser")
let crypto = Target.Dependency.product(name: "Crypto", package: "swift-crypto")
let cryptoExtras = Target.Dependency.product(name: "CryptoExtras", package: "swift-crypto")
let demoProvider = Target.Dependency.product(name: "DemoProvider", package: "DemoProvider")
let demoProviderProgram = Target.Dependency.product(name: "grantd-demo-provider", package: "DemoProvider")
let deque = Target.Dependency.product(name: "DequeModule", package: "swift-collections")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let nioCore = Target.Dependency.product(name: "NIOCore", package: "swift-nio")
let nioEmbedded = Target.Dependency.product(name: "NIOEmbedded", package: "swift-nio")
let nioPosix = Target.Dependency.product(name: "NIOPosix", package: "swift-nio")
let nioSSL = Target.Dependency.product(name: "NIOSSL", package: "swift-nio-ssl")
let nioTLS = Target.Dependency.product(name: "NIOTLS", package: "swift-nio")
let nioExtras = Target.Dependency.product(name: "NIOExtras", package: "swift-nio-extras")
let nioHTTP1 = Target.Dependency.product(name: "NIOHTTP1", package: "swift-nio")
let unixSignals = Target.Dependency.product(name: "UnixSignals", package: "swift-service-lifecycle")

/// A release build is small rather than fast: the run time of these targets does not matter.
let small: [SwiftSetting] = settings + [.unsafeFlags(["-Osize"], .when(configuration: .release))]
/// A release build is fast for requests and commits. All other code is small (scripts/swiftpm).
let fast: [SwiftSetting] = settings + [.unsafeFlags(["-Xfrontend", "-O"], .when(configuration: .release))]
/// Options of installed programs. The addresses that the dynamic linker adjusts at each start are in the compact form (DT_RELR,
/// Sources/C/CLinux/relr.c) and read-only afterwards. Exported are only symbols that a library has too, such as `free`
/// (decision 27).
let lean: [LinkerSetting] = [
  .unsafeFlags(
    ["-use-ld=lld"]
      + ["--pack-dyn-relocs=relr", "--no-export-dynamic", "-z", "relro", "-z", "now"].flatMap { ["-Xlinker", $0] },
    .when(platforms: [.linux], configuration: .release))
]

func room(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .target(name: name, dependencies: dependencies, swiftSettings: settings)
}

func fastRoom(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .target(name: name, dependencies: dependencies, swiftSettings: fast)
}

func program(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .executableTarget(name: name, dependencies: dependencies, swiftSettings: settings)
}

/// A release build of it needs no library at all: a process of it starts in a fraction of a millisecond.
func staticProgram(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .executableTarget(
    name: name, dependencies: dependencies, swiftSettings: settings,
    linkerSettings: [.unsafeFlags(["-static-executable"], .when(platforms: [.linux], configuration: .release))])
}

func tests(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .testTarget(name: name, dependencies: dependencies, swiftSettings: settings)
}

/// The layers: the folders of `Sources`. A target imports targets of the same layer and of the layers below it
/// (scripts/lint/imports).
let layers = [
  "Programs": ["grantd", "grantctl", "grantctl-front", "grantd-reference"],
  "Edges": [
    "Callback", "Callers", "HTTPServer", "HTTPTransport", "Hooks", "Listening", "Loopback", "MetricsEndpoint", "Pages",
    "PostgreSQLStore", "SQLite", "SQLiteStore", "StoreRows", "SystemEvents", "Systemd", "TokenFiles", "UnixSocket",
    "UserPages",
  ],
  "Core": ["Broker", "Grants", "OAuth", "Principals", "Providers", "Sealing"],
  "Clients": [
    "AsyncClient", "BlockingClient", "BrokerAPI", "BrokerSocket", "CredentialHelpers", "JSON", "PlainText",
    "ProviderTemplates", "QRCodes",
  ],
  "C": ["CAbsent", "CHeap", "CLibpq", "CLinux", "CQREncode", "CSQLite", "CSystemd", "CToml", "CZlib", "Platform"],
]

let package = Package(
  name: "grantd",
  platforms: [.macOS(.v15)],
  products: [
    .executable(name: "grantd", targets: ["grantd"]),
    .executable(name: "grantctl", targets: ["grantctl"]),
    .executable(name: "grantctl-front", targets: ["grantctl-front"]),
  ],
  dependencies: [
    .package(url: "https://github.com/apple/swift-nio", from: "2.101.0"),
    .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.0"),
    .package(url: "https://github.com/apple/swift-nio-extras", from: "1.35.2"),
    .package(url: "https://github.com/apple/swift-collections", from: "1.5.0"),
    .package(url: "https://github.com/apple/swift-crypto", from: "4.5.0"),
    .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    .package(path: "Tests/Support/DemoProvider"),
  ],
  targets: [
    // The rooms, one-way: a target forbids an import or isolates one dependency (docs/developers/overview.md).
    fastRoom("JSON", []),
    fastRoom("PlainText", []),
    room("OAuth", ["JSON", "PlainText", crypto, cryptoExtras]),
    fastRoom("Grants", ["OAuth", crypto]),
    fastRoom("BrokerAPI", ["JSON"]),
    fastRoom("Principals", ["BrokerAPI"]),
    .target(name: "CredentialHelpers", dependencies: ["BrokerAPI"], swiftSettings: small),
    fastRoom("Broker", ["BrokerAPI", "Grants", "OAuth", "Principals", "Sealing", deque, logging]),
    room("Providers", ["Grants", "OAuth"]),
    fastRoom("Listening", ["BrokerAPI", "Principals", nioCore, logging]),
    .target(name: "ProviderTemplates", swiftSettings: small),
    .target(name: "QRCodes", dependencies: ["CQREncode"], swiftSettings: small),
    room("BrokerSocket", ["CLinux"]),
    room("BlockingClient", ["BrokerAPI", "BrokerSocket"]),
    room("AsyncClient", ["BlockingClient", "BrokerAPI", "BrokerSocket", "Platform"]),
    room("Platform", ["CLinux"]),
    fastRoom("Callers", ["BrokerAPI", "CLinux", "Principals"]),
    fastRoom(
      "UnixSocket",
      ["BrokerAPI", "Callers", "CLinux", "Listening", "Platform", "Principals", nioCore, nioPosix, logging]),
    fastRoom(
      "HTTPTransport",
      [
        "Broker", "CZlib", "Listening", "OAuth", "Platform", nioCore, nioExtras, nioPosix, nioHTTP1, nioSSL, nioTLS,
        deque,
      ]),
    room("Pages", ["PlainText"]),
    room(
      "Callback",
      [
        "Broker", "BrokerAPI", "Callers", "Grants", "HTTPServer", "Listening", "OAuth", "Pages", nioCore, nioPosix,
        nioHTTP1, logging,
      ]),
    fastRoom(
      "HTTPServer",
      ["BrokerAPI", "CLinux", "Callers", "Listening", "Platform", "Principals", nioCore, nioPosix, nioHTTP1, logging]),
    fastRoom(
      "Loopback",
      [
        "Broker", "BrokerAPI", "CLinux", "CredentialHelpers", "Grants", "HTTPServer", "HTTPTransport", "Listening",
        "OAuth", "Principals",
        nioCore, nioHTTP1,
      ]),
    room(
      "UserPages",
      [
        "Broker", "BrokerAPI", "CredentialHelpers", "HTTPServer", "Listening", "Loopback", "OAuth", "Pages",
        "PlainText", "Principals", "ProviderTemplates", "QRCodes", nioCore,
        nioHTTP1,
      ]),
    room("MetricsEndpoint", ["Broker", "BrokerAPI", "HTTPServer", "Principals", nioCore, nioHTTP1]),
    room("Hooks", ["Broker", "BrokerAPI", "CLinux", "PlainText", "Platform", logging]),
    room("TokenFiles", ["Broker", "BrokerAPI", "CLinux"]),
    fastRoom("Sealing", ["OAuth", crypto, cryptoExtras]),
    fastRoom("SQLite", ["CSQLite"]),
    fastRoom("StoreRows", ["Broker", "Grants", "OAuth", "Sealing", "SQLite"]),
    fastRoom("SQLiteStore", ["Broker", "Grants", "OAuth", "Sealing", "SQLite", "StoreRows"]),
    fastRoom(
      "PostgreSQLStore",
      ["Broker", "BrokerAPI", "CLibpq", "Grants", "OAuth", "Sealing", "SQLite", "SQLiteStore", "StoreRows"]),
    room("Systemd", ["CSystemd", "CLinux", "PlainText", logging]),
    room("SystemEvents", ["CLinux", "CSystemd", "Platform"]),
    // The name Configuration is another package's.
    .target(
      name: "GrantdConfiguration",
      dependencies: ["Broker", "BrokerAPI", "CToml", "Grants", "OAuth", "Principals", "Providers"],
      path: "Sources/Edges/Configuration", swiftSettings: small),
    .systemLibrary(name: "CSystemd", pkgConfig: "libsystemd", providers: [.apt(["libsystemd-dev"])]),
    .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
    .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
    .target(name: "CLinux"),
    .target(name: "CHeap"),
    // Loads libpq.so.5 while the program runs: nothing is linked (decision 71).
    .target(name: "CLibpq"),
    // Loads libqrencode.so.4 in the same way (decision 77).
    .target(name: "CQREncode"),
    // With the headers of toml++ alone, from libtomlplusplus-dev (decision 53).
    .target(name: "CToml"),
    .target(name: "CAbsent", cSettings: [.define("FOUNDATION_IS_ABSENT", .when(configuration: .release))]),

    .executableTarget(
      name: "grantd",
      dependencies: [
        "Broker", "BrokerAPI", "Callback", "Callers", "GrantdConfiguration", "Grants", "Hooks", "HTTPServer",
        "HTTPTransport", "Listening", "Loopback", "MetricsEndpoint", "OAuth", "Platform", "PostgreSQLStore",
        "Principals", "Providers", "Sealing", "SQLiteStore", "SystemEvents", "Systemd",
        "TokenFiles", "UnixSocket", "UserPages", "CLinux", "CHeap", argumentParser, unixSignals, logging, nioCore,
        nioPosix,
      ], swiftSettings: settings, linkerSettings: lean),
    .executableTarget(
      name: "grantctl",
      dependencies: [
        "AsyncClient", "BlockingClient", "BrokerAPI", "BrokerSocket", "CAbsent", "Callers", "CLinux",
        "CredentialHelpers", "PlainText", "Platform", "Principals", "ProviderTemplates", "QRCodes", argumentParser,
      ], swiftSettings: small, linkerSettings: lean),
    // Installed as grantctl (decision 50).
    staticProgram("grantctl-front", ["BrokerSocket"]),
    program("grantd-reference", ["BrokerAPI", "GrantdConfiguration"]),

    .target(
      name: "TestSupport", dependencies: ["BrokerAPI", logging], path: "Tests/Support/TestSupport",
      swiftSettings: settings),
    .target(
      name: "TestHTTP", dependencies: [nioCore, nioPosix, nioHTTP1], path: "Tests/Support/TestHTTP",
      swiftSettings: settings),
    tests("JSONTests", ["JSON", "TestSupport"]),
    tests("OAuthTests", ["OAuth", "TestSupport", crypto, cryptoExtras]),
    tests("BrokerAPITests", ["BrokerAPI", "TestSupport"]),
    tests("CredentialHelpersTests", ["CredentialHelpers", "BrokerAPI"]),
    tests("GrantsTests", ["Broker", "BrokerAPI", "Grants", "OAuth", "Principals"]),
    tests("ProvidersTests", ["Grants", "OAuth", "Providers", crypto]),
    tests(
      "BrokerTests",
      [
        "Broker", "BrokerAPI", "Grants", "OAuth", "Principals", "Providers", "Scheduling", "Sealing", "TestSupport",
        logging,
      ]),
    tests(
      "HTTPTransportTests",
      ["HTTPTransport", "TestSupport", "Broker", "Grants", "OAuth", nioCore, nioPosix, nioHTTP1, nioSSL]),
    tests("BrokerSocketTests", ["BrokerSocket"]),
    tests("BlockingClientTests", ["BlockingClient", "BrokerAPI"]),
    tests("PlatformTests", ["Platform"]),
    tests("CallersTests", ["Callers", "CLinux", "Principals"]),
    tests(
      "HTTPServerTests",
      [
        "HTTPServer", "Callers", "CLinux", "Listening", "Principals", "TestSupport", "BrokerAPI", nioCore, nioPosix,
        nioHTTP1, logging,
      ]),
    tests(
      "LoopbackTests",
      [
        "Loopback", "Broker", "BrokerAPI", "Grants", "HTTPServer", "HTTPTransport", "Listening", "OAuth", "Principals",
        "TestSupport", nioCore, nioPosix, nioHTTP1, logging,
      ]),
    tests(
      "UnixSocketTests",
      [
        "Principals", "UnixSocket", "AsyncClient", "BlockingClient", "BrokerSocket", "Callers", "TestSupport",
        "BrokerAPI", "CLinux",
        "Listening", nioCore, nioPosix, logging,
      ]),
    tests("SealingTests", ["Sealing", "OAuth", crypto]),
    tests(
      "SQLiteStoreTests",
      [
        "SQLite", "SQLiteStore", "StoreRows", "Sealing", "TestSupport", "Broker", "BrokerAPI", "Grants", "OAuth",
        "Principals",
        "store-fixture",
      ]),
    .executableTarget(
      name: "store-fixture", dependencies: ["SQLiteStore", "Sealing", "Broker", "Grants", "OAuth"],
      path: "Tests/Support/StoreFixture", swiftSettings: settings),
    .target(name: "CSimulation", path: "Tests/Support/CSimulation"),
    .target(
      name: "Scheduling", dependencies: ["CSimulation"], path: "Tests/Support/Scheduling", swiftSettings: settings),
    .executableTarget(
      name: "grantd-simulate",
      dependencies: [
        "Scheduling", "Broker", "BrokerAPI", "Grants", "OAuth", "Principals", "Providers", "Sealing", "SQLiteStore",
        logging,
      ],
      path: "Tests/Support/Simulation", swiftSettings: settings),
    tests(
      "CallbackTests",
      [
        "Callback", "Callers", "HTTPServer", "Listening", "Pages", "TestSupport", "Broker", "BrokerAPI", "Grants",
        nioCore, nioPosix, nioHTTP1, logging, crypto,
      ]),
    tests("PagesTests", ["Pages", "TestSupport"]),
    tests("UserPagesTests", ["UserPages", "Pages", "Principals", nioHTTP1]),
    tests(
      "MetricsEndpointTests",
      ["MetricsEndpoint", "HTTPServer", "TestSupport", "Broker", nioCore, nioPosix, logging]),
    tests("TokenFilesTests", ["TokenFiles", "TestSupport", "Broker", "Grants"]),
    tests("HooksTests", ["Hooks", "TestSupport", "Broker", "BrokerAPI", logging]),
    tests("SystemdTests", ["Systemd", "TestSupport", "CLinux", logging]),
    tests("SystemEventsTests", ["SystemEvents", "events-fixture"]),
    .executableTarget(
      name: "events-fixture", dependencies: ["SystemEvents"], path: "Tests/Support/EventsFixture",
      swiftSettings: settings),
    tests(
      "ConfigurationTests",
      [
        "GrantdConfiguration", "Broker", "BrokerAPI", "Grants", "OAuth", "Principals", "Providers", "TestSupport",
        crypto,
      ]),
    tests(
      "GrantdTests",
      [
        "grantd", "Broker", "BrokerAPI", "GrantdConfiguration", "Grants", "HTTPServer", "HTTPTransport", "Hooks",
        "Listening", "Loopback", "MetricsEndpoint", "OAuth", "Principals", "Providers", "SQLiteStore", "Sealing",
        "SystemEvents", "Systemd", "TestSupport", "UnixSocket", logging,
      ]),
    tests(
      "GrantctlTests",
      [
        "grantctl", "grantctl-front", "TestSupport", "AsyncClient", "BlockingClient", "BrokerAPI", "BrokerSocket",
        "CredentialHelpers", "PlainText", "Platform", "Principals", "ProviderTemplates", "QRCodes",
        "UnixSocket",
        argumentParser,
        nioCore,
        nioPosix, logging,
      ]),
    tests(
      "IntegrationTests",
      [
        "TestSupport", "AsyncClient", "BlockingClient", "BrokerAPI", demoProvider, "grantd", "grantctl",
        demoProviderProgram,
        "store-fixture",
        "TestHTTP", crypto, cryptoExtras, nioCore, nioPosix, nioHTTP1,
      ]),
    // What fuzzing starts from and has found, without a fuzzer; with one below.
    .testTarget(
      name: "FuzzTests",
      dependencies: [
        "JSON", "OAuth", "Grants", "BrokerAPI", "Broker", "Providers", "UnixSocket", "HTTPServer",
        "Callback", "GrantdConfiguration", "CredentialHelpers", "grantctl",
        crypto, nioCore, nioEmbedded, nioHTTP1,
      ],
      path: "Tests/fuzz", exclude: ["Rooms", "Harness", "corpus", "regressions", "dictionaries"],
      sources: ["Checks", "Replay"], swiftSettings: settings),
    tests("DemoProviderTests", [demoProvider, "TestHTTP", "TestSupport", nioCore, nioHTTP1, crypto, cryptoExtras]),
  ],
  cLanguageStandard: .gnu11, cxxLanguageStandard: .cxx17
)

// Built only by scripts/search/fuzz: the rooms a second time, under other names, so that the dependencies are shared
// with the ordinary build and its own rooms stay unchanged. Instrumented for libFuzzer and AddressSanitizer, and
// optimised, since a fuzzer lives on speed, but with the checks of a debug build.
if Context.environment["GRANTD_FUZZ"] != nil {
  let rooms = [
    "JSON", "OAuth", "Grants", "BrokerAPI", "Principals", "Broker", "Providers", "Listening", "Callers", "UnixSocket",
    "HTTPServer",
    "Callback", "GrantdConfiguration", "CredentialHelpers", "Sealing", "grantctl",
  ]
  let sanitizers = ["-sanitize=fuzzer,address"]
  let names = rooms.flatMap { ["-module-alias", "\($0)=Fuzzed\($0)"] }
  let instrumented = settings + [.unsafeFlags(["-O", "-assert-config", "Debug"] + sanitizers + names)]
  func fuzzed(_ names: String...) -> [Target.Dependency] { names.map { .target(name: "Fuzzed\($0)") } }
  func twin(_ name: String, _ dependencies: [Target.Dependency], folder: String? = nil) -> Target {
    .target(
      name: "Fuzzed\(name)", dependencies: dependencies, path: "Tests/fuzz/Rooms/\(folder ?? name)",
      swiftSettings: instrumented)
  }
  // It has the same sources, and a source is one target's.
  package.targets.removeAll { ["FuzzTests", "CToml"].contains($0.name) }
  package.targets += [
    .target(name: "CToml", cxxSettings: [.unsafeFlags(["-O1", "-fsanitize=fuzzer-no-link,address"])]),
    twin("JSON", []),
    twin("OAuth", fuzzed("JSON") + ["PlainText", crypto, cryptoExtras]),
    twin("Grants", fuzzed("OAuth") + [crypto]),
    twin("BrokerAPI", fuzzed("JSON")),
    twin("Principals", fuzzed("BrokerAPI")),
    twin("Sealing", fuzzed("OAuth") + [crypto, cryptoExtras]),
    twin("Broker", fuzzed("BrokerAPI", "Grants", "OAuth", "Principals", "Sealing") + [deque, logging]),
    twin("Providers", fuzzed("Grants", "OAuth")),
    twin("Listening", fuzzed("BrokerAPI", "Principals") + [nioCore, logging]),
    twin("Callers", fuzzed("BrokerAPI", "Principals") + ["CLinux"]),
    twin(
      "UnixSocket",
      fuzzed("BrokerAPI", "Callers", "Listening", "Principals") + ["CLinux", "Platform", nioCore, nioPosix, logging]),
    twin(
      "HTTPServer", fuzzed("BrokerAPI", "Callers", "Listening", "Principals") + [nioCore, nioPosix, nioHTTP1, logging]),
    twin(
      "Callback",
      fuzzed("Broker", "BrokerAPI", "Callers", "Grants", "HTTPServer", "Listening", "OAuth")
        + ["Pages", nioCore, nioPosix, nioHTTP1, logging]),
    twin(
      "GrantdConfiguration", fuzzed("Broker", "BrokerAPI", "Grants", "OAuth", "Principals", "Providers") + ["CToml"],
      folder: "Configuration"),
    twin("CredentialHelpers", fuzzed("BrokerAPI")),
    twin("grantctl", ["PlainText", "ProviderTemplates", "QRCodes"]),
    .executableTarget(
      name: "grantd-fuzz",
      dependencies: rooms.map { .target(name: "Fuzzed\($0)") } + [crypto, nioCore, nioEmbedded, nioHTTP1],
      path: "Tests/fuzz", exclude: ["Rooms", "Replay", "corpus", "regressions", "dictionaries"],
      sources: ["Checks", "Harness"], swiftSettings: instrumented, linkerSettings: [.unsafeFlags(sanitizers)]),
  ]
}

for (layer, names) in layers {
  for target in package.targets where names.contains(target.name) { target.path = "Sources/\(layer)/\(target.name)" }
}

// Set by scripts/check: the targets named there and their dependencies, so that tests of rooms without NIO build and
// link without it. The packages stay declared, so that the ordinary build finds everything as it left it.
if let names = Context.environment["GRANTD_TARGETS"] {
  var kept: Set<String> = []
  var waiting = names.split(separator: " ").map(String.init)
  while let name = waiting.popLast() {
    guard kept.insert(name).inserted, let target = package.targets.first(where: { $0.name == name }) else { continue }
    for case .byNameItem(let name, _) in target.dependencies { waiting.append(name) }
  }
  package.targets.removeAll { !kept.contains($0.name) }
  package.products.removeAll { !kept.contains($0.name) }
  let unknown = kept.subtracting(package.targets.map(\.name))
  // A program of another package is built only if a target of this one depends on it.
  let program = package.targets.first { $0.type == .executable }
  if unknown.contains("grantd-demo-provider") { program?.dependencies.append(demoProviderProgram) }
  precondition(
    unknown.isSubset(of: program == nil ? [] : ["grantd-demo-provider"]), "GRANTD_TARGETS: no targets \(unknown)")
}
