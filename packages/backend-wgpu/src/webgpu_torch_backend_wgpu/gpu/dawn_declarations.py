"""The declarations of Dawn's webgpu.h as of late 2026, as far as they are used here."""

from __future__ import annotations

_SMALL, _LARGE = "uint32_t", "uint64_t"
_BEFORE = (
    "TextureDimension1D TextureDimension2D TextureDimension3D TextureArrayLayers BindGroups BindGroupsPlusVertexBuffers "
    "BindingsPerBindGroup DynamicUniformBuffersPerPipelineLayout DynamicStorageBuffersPerPipelineLayout "
    "SampledTexturesPerShaderStage SamplersPerShaderStage StorageBuffersPerShaderStage StorageTexturesPerShaderStage "
    "UniformBuffersPerShaderStage"
)
_AFTER = (
    "VertexAttributes VertexBufferArrayStride InterStageShaderVariables ColorAttachments ColorAttachmentBytesPerSample "
    "ComputeWorkgroupStorageSize ComputeInvocationsPerWorkgroup ComputeWorkgroupSizeX ComputeWorkgroupSizeY "
    "ComputeWorkgroupSizeZ ComputeWorkgroupsPerDimension ImmediateSize"
)
_HANDLES = (
    "Instance Adapter Device Queue Buffer ShaderModule ComputePipeline PipelineLayout BindGroup BindGroupLayout "
    "CommandEncoder CommandBuffer ComputePassEncoder QuerySet"
)
_CALLBACK = "void* nextInChain; int mode; void* callback; void* userdata1; void* userdata2;"
_NAMED = "void* nextInChain; WGPUStringView label;"
_STRUCTURES = {
    "StringView": "char const* data; size_t length;",
    "ChainedStruct": "void* next; int sType;",
    "Future": "uint64_t id;",
    "FutureWaitInfo": "WGPUFuture future; uint32_t completed;",
    "InstanceLimits": "void* nextInChain; size_t timedWaitAnyMaxCount;",
    "InstanceDescriptor": "void* nextInChain; size_t count; int const* features; WGPUInstanceLimits const* limits;",
    "DawnTogglesDescriptor": "WGPUChainedStruct chain; size_t enabledCount; char const* const* enabled; "
    "size_t disabledCount; char const* const* disabled;",
    "RequestAdapterOptions": "void* nextInChain; int featureLevel; int powerPreference; uint32_t forceFallback; "
    "int backendType; void* surface;",
    "AdapterInfo": "void* nextInChain; WGPUStringView vendor, architecture, device, description; "
    "int backendType, adapterType; uint32_t vendorID, deviceID, subgroupMinSize, subgroupMaxSize;",
    "SubgroupMatrixConfig": "int componentType, resultComponentType; uint32_t M, N, K;",
    "AdapterPropertiesSubgroupMatrixConfigs": "WGPUChainedStruct chain; size_t configCount; "
    "WGPUSubgroupMatrixConfig const* configs;",
    "Limits": "void* nextInChain;"
    + "".join(f"{_SMALL} max{each};" for each in _BEFORE.split())
    + f"{_LARGE} maxUniformBufferBindingSize, maxStorageBufferBindingSize;"
    + f"{_SMALL} minUniformBufferOffsetAlignment, minStorageBufferOffsetAlignment, maxVertexBuffers;"
    + f"{_LARGE} maxBufferSize;"
    + "".join(f"{_SMALL} max{each};" for each in _AFTER.split()),
    "QueueDescriptor": _NAMED,
    "CacheCallbackInfo": "void* nextInChain; void* callback; void* userdata1; void* userdata2;",
    "DawnCacheDeviceDescriptor": "WGPUChainedStruct chain; WGPUStringView isolationKey; WGPUCacheCallbackInfo load; "
    "WGPUCacheCallbackInfo store;",
    "CallbackInfo": _CALLBACK,
    "BufferMapCallbackInfo": _CALLBACK,
    "UncapturedErrorCallbackInfo": "void* nextInChain; void* callback; void* userdata1; void* userdata2;",
    "DeviceDescriptor": _NAMED
    + "size_t requiredFeatureCount; int const* requiredFeatures; WGPULimits const* requiredLimits; "
    "WGPUQueueDescriptor defaultQueue; WGPUCallbackInfo deviceLostCallbackInfo; "
    "WGPUUncapturedErrorCallbackInfo uncapturedErrorCallbackInfo;",
    "BufferDescriptor": _NAMED + "uint64_t usage; uint64_t size; uint32_t mappedAtCreation;",
    "ShaderSourceWGSL": "WGPUChainedStruct chain; WGPUStringView code;",
    "ShaderModuleDescriptor": _NAMED,
    "ComputeState": "void* nextInChain; WGPUShaderModule module; WGPUStringView entryPoint; size_t constants; void* values;",
    "ComputePipelineDescriptor": _NAMED + "WGPUPipelineLayout layout; WGPUComputeState compute;",
    "BindGroupEntry": "void* nextInChain; uint32_t binding; WGPUBuffer buffer; uint64_t offset; uint64_t size; "
    "void* sampler; void* textureView;",
    "BindGroupDescriptor": _NAMED + "WGPUBindGroupLayout layout; size_t entryCount; WGPUBindGroupEntry const* entries;",
    "BufferBindingLayout": "void* nextInChain; int type; uint32_t hasDynamicOffset; uint64_t minBindingSize;",
    "SamplerBindingLayout": "void* nextInChain; int type;",
    "TextureBindingLayout": "void* nextInChain; int sampleType, viewDimension; uint32_t multisampled;",
    "StorageTextureBindingLayout": "void* nextInChain; int access, format, viewDimension;",
    "BindGroupLayoutEntry": "void* nextInChain; uint32_t binding; uint64_t visibility; uint32_t bindingArraySize; "
    "WGPUBufferBindingLayout buffer; WGPUSamplerBindingLayout sampler; WGPUTextureBindingLayout texture; "
    "WGPUStorageTextureBindingLayout storageTexture;",
    "BindGroupLayoutDescriptor": _NAMED + "size_t entryCount; WGPUBindGroupLayoutEntry const* entries;",
    "PipelineLayoutDescriptor": _NAMED + "size_t bindGroupLayoutCount; WGPUBindGroupLayout const* bindGroupLayouts; "
    "uint32_t immediateSize;",
    "PassTimestampWrites": "void* nextInChain; WGPUQuerySet querySet; uint32_t beginningOfPassWriteIndex, "
    "endOfPassWriteIndex;",
    "ComputePassDescriptor": _NAMED + "WGPUPassTimestampWrites const* timestampWrites;",
    "QuerySetDescriptor": _NAMED + "int type; uint32_t count;",
    "CommandEncoderDescriptor": _NAMED,
}
_FUNCTIONS = """
WGPUInstance wgpuCreateInstance(WGPUInstanceDescriptor const*);
WGPUFuture wgpuInstanceRequestAdapter(WGPUInstance, WGPURequestAdapterOptions const*, WGPUCallbackInfo);
int wgpuInstanceWaitAny(WGPUInstance, size_t, WGPUFutureWaitInfo*, uint64_t);
int wgpuAdapterGetInfo(WGPUAdapter, WGPUAdapterInfo*);
void wgpuAdapterInfoFreeMembers(WGPUAdapterInfo);
int wgpuAdapterGetLimits(WGPUAdapter, WGPULimits*);
uint32_t wgpuAdapterHasFeature(WGPUAdapter, int);
WGPUDevice wgpuAdapterCreateDevice(WGPUAdapter, WGPUDeviceDescriptor const*);
int wgpuDeviceGetLimits(WGPUDevice, WGPULimits*);
WGPUQueue wgpuDeviceGetQueue(WGPUDevice);
void wgpuDeviceDestroy(WGPUDevice);
void wgpuDeviceTick(WGPUDevice);
WGPUBuffer wgpuDeviceCreateBuffer(WGPUDevice, WGPUBufferDescriptor const*);
WGPUShaderModule wgpuDeviceCreateShaderModule(WGPUDevice, WGPUShaderModuleDescriptor const*);
WGPUComputePipeline wgpuDeviceCreateComputePipeline(WGPUDevice, WGPUComputePipelineDescriptor const*);
WGPUBindGroup wgpuDeviceCreateBindGroup(WGPUDevice, WGPUBindGroupDescriptor const*);
WGPUBindGroupLayout wgpuDeviceCreateBindGroupLayout(WGPUDevice, WGPUBindGroupLayoutDescriptor const*);
WGPUPipelineLayout wgpuDeviceCreatePipelineLayout(WGPUDevice, WGPUPipelineLayoutDescriptor const*);
WGPUCommandEncoder wgpuDeviceCreateCommandEncoder(WGPUDevice, WGPUCommandEncoderDescriptor const*);
WGPUQuerySet wgpuDeviceCreateQuerySet(WGPUDevice, WGPUQuerySetDescriptor const*);
WGPUComputePassEncoder wgpuCommandEncoderBeginComputePass(WGPUCommandEncoder, WGPUComputePassDescriptor const*);
void wgpuComputePassEncoderSetPipeline(WGPUComputePassEncoder, WGPUComputePipeline);
void wgpuComputePassEncoderSetBindGroup(WGPUComputePassEncoder, uint32_t, WGPUBindGroup, size_t, uint32_t const*);
void wgpuComputePassEncoderDispatchWorkgroups(WGPUComputePassEncoder, uint32_t, uint32_t, uint32_t);
void wgpuComputePassEncoderEnd(WGPUComputePassEncoder);
void wgpuCommandEncoderCopyBufferToBuffer(WGPUCommandEncoder, WGPUBuffer, uint64_t, WGPUBuffer, uint64_t, uint64_t);
void wgpuCommandEncoderResolveQuerySet(WGPUCommandEncoder, WGPUQuerySet, uint32_t, uint32_t, WGPUBuffer, uint64_t);
WGPUCommandBuffer wgpuCommandEncoderFinish(WGPUCommandEncoder, void*);
void wgpuQueueSubmit(WGPUQueue, size_t, WGPUCommandBuffer const*);
void wgpuQueueWriteBuffer(WGPUQueue, WGPUBuffer, uint64_t, void const*, size_t);
WGPUFuture wgpuQueueOnSubmittedWorkDone(WGPUQueue, WGPUCallbackInfo);
WGPUFuture wgpuBufferMapAsync(WGPUBuffer, uint64_t, size_t, size_t, WGPUBufferMapCallbackInfo);
void const* wgpuBufferGetConstMappedRange(WGPUBuffer, size_t, size_t);
void wgpuBufferUnmap(WGPUBuffer);
void wgpuBufferDestroy(WGPUBuffer);
"""


def declarations() -> str:
    """Return the declarations of webgpu.h that are used here, for cffi."""
    handles = "".join(f"typedef struct WGPU{name}Impl* WGPU{name};\n" for name in _HANDLES.split())
    numbers = "typedef int WGPUErrorType; typedef int WGPUDeviceLostReason; typedef int WGPUMapAsyncStatus;\n"
    structures = "".join(f"typedef struct {{ {fields} }} WGPU{name};\n" for name, fields in _STRUCTURES.items())
    releases = "".join(f"void wgpu{name}Release(WGPU{name});\n" for name in _HANDLES.split())
    return handles + numbers + structures + _FUNCTIONS + releases
