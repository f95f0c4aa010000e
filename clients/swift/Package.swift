// swift-tools-version: 6.0
import PackageDescription

// The folders beside Grantd are links to the sources of grantctl (docs/libraries.md).
let settings: [SwiftSetting] = [
  .enableUpcomingFeature("MemberImportVisibility"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("ExistentialAny"),
]

let package = Package(
  name: "grantd-swift",
  products: [.library(name: "Grantd", targets: ["Grantd"])],
  targets: [
    .target(name: "CLinux"),
    .target(name: "JSON", swiftSettings: settings),
    .target(name: "BrokerAPI", dependencies: ["JSON"], swiftSettings: settings),
    .target(name: "BrokerSocket", dependencies: ["CLinux"], swiftSettings: settings),
    .target(name: "Platform", dependencies: ["CLinux"], swiftSettings: settings),
    .target(name: "BlockingClient", dependencies: ["BrokerAPI", "BrokerSocket"], swiftSettings: settings),
    .target(
      name: "AsyncClient", dependencies: ["BlockingClient", "BrokerAPI", "BrokerSocket", "Platform"],
      swiftSettings: settings),
    .target(
      name: "Grantd", dependencies: ["AsyncClient", "BlockingClient", "BrokerAPI", "BrokerSocket"],
      swiftSettings: settings),
  ],
  cLanguageStandard: .gnu11
)
