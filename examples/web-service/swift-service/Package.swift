// swift-tools-version: 6.0
import PackageDescription

let package = Package(
  name: "service",
  // Its name is that of its folder.
  dependencies: [.package(path: "../../../clients/swift")],
  targets: [
    .executableTarget(name: "service", dependencies: [.product(name: "Grantd", package: "swift")])
  ]
)
