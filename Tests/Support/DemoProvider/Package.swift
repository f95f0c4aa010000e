// swift-tools-version: 6.2
import PackageDescription

let settings: [SwiftSetting] = [
  .swiftLanguageMode(.v6),
  .enableUpcomingFeature("MemberImportVisibility"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("ExistentialAny"),
]

// A separate package without any source of grantd: shared code would hide the faults of the broker. The main
// package depends on it by its path, so that both use one build of NIO and of Crypto.
let package = Package(
  name: "DemoProvider",
  products: [
    .library(name: "DemoProvider", targets: ["DemoProvider"]),
    .executable(name: "grantd-demo-provider", targets: ["grantd-demo-provider"]),
  ],
  dependencies: [
    .package(url: "https://github.com/apple/swift-nio", from: "2.101.0"),
    .package(url: "https://github.com/apple/swift-crypto", from: "4.5.0"),
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
  ],
  targets: [
    .target(
      name: "DemoProvider",
      dependencies: [
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOPosix", package: "swift-nio"),
        .product(name: "NIOHTTP1", package: "swift-nio"),
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "CryptoExtras", package: "swift-crypto"),
      ], swiftSettings: settings),
    .executableTarget(
      name: "grantd-demo-provider",
      dependencies: ["DemoProvider", .product(name: "ArgumentParser", package: "swift-argument-parser")],
      swiftSettings: settings),
  ]
)
