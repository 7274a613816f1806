"""Operations on 8-bit floats: kernels see their bits as uint8, and numbers decoded from them as float32."""
