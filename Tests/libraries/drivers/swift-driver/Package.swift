// swift-tools-version: 6.0
import PackageDescription

let package = Package(
  name: "driver",
  // Its name is that of its folder.
  dependencies: [.package(path: "../../../../clients/swift")],
  targets: [
    .executableTarget(name: "driver", dependencies: [.product(name: "Grantd", package: "swift")]),
    .executableTarget(name: "texts", dependencies: [.product(name: "Grantd", package: "swift")]),
  ]
)
